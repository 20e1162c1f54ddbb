# One image for web processes, workers and the migration.
FROM python:3.11.14-slim-bookworm

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1
WORKDIR /srv/citable

# What is installed changes less often than what is written here.
COPY requirements.txt ./
RUN pip install -r requirements.txt

# A fixed number, so that a volume fits the next image too.
RUN useradd --uid 10001 --create-home citable
COPY . .
# A new volume takes its owner from this folder; an image compiled once starts faster.
RUN mkdir -p var/media var/static && chown -R citable:citable var \
    && python -m compileall -q agents project rag
USER citable

EXPOSE 8000
# Of the web server; workers and the migration have no port, and compose.yaml switches it off for them.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["python", "-m", "project.web_server", "--host=0.0.0.0", "--port=8000"]
