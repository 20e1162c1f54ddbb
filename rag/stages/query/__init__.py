"""Query understanding by rules: analysis, entities, cue words, condensed questions."""
