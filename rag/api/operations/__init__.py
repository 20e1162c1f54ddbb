"""Operations API: health, metrics, reindex runs, usage."""
