"""Admin of accounts: users, groups and API keys, without a way to raise one's own rights."""
