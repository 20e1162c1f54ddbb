"""Origins of documents that a store follows: a folder, an S3 bucket."""
