"""What commands show, as plain data; nothing here prints or reads the clock."""
