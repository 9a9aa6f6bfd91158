"""What uses the core: models, tables -> searches, exports, pages, formats."""
