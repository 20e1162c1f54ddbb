"""Sign-in: throttled doors, limits of sessions, second factors and single sign-on."""
