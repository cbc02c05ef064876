"""JSON as others write it: untrusted texts, JavaScript's numbers, pieces in prose, keys of records."""
