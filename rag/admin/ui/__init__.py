"""Parts of all admins: scoped ModelAdmins, pages, forms, list filters, table cells, charts."""
