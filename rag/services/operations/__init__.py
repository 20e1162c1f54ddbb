"""Operations: health, consistency checks, recovery and retention, metrics, dashboard, jobs."""
