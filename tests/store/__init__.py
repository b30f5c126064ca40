"""The database and its tables: real files, real crashes."""
