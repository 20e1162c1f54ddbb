"""Admin of stores: form, overview, hit test, upload, actions, and embedding spaces."""
