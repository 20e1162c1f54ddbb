"""Citations: markers read, quotes verified against their sources, uncited claims attributed."""
