/* The page after a save: the draft of what was saved is taken away. */

import { dropSaved } from "./flow_drafts.js";

dropSaved();
