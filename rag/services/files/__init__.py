"""Files of a store: upload, replace, sync with an origin, edit, move, requeue, export, delete."""
