"""What both HTTP faces share: keys, host and origin checks, CORS, error bodies."""
