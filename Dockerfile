# The image of FIFO Proxy. Build: docker build -t fifo-proxy .
# Behind a slow line, name nearer sources: --build-arg BASE=... --build-arg PIP_INDEX_URL=...
ARG BASE=python:3.12-slim

# Stage 1 makes a virtual environment without pip in it; the sources, the compiler and what pip needed stay behind.
# --build-arg FIFO_PROXY_COMPILE=0 leaves the hot path in Python: slower, and no compiler is fetched.
FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG FIFO_PROXY_COMPILE=1
RUN test "$FIFO_PROXY_COMPILE" != 1 || command -v gcc \
 || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; }
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY proxy proxy
RUN python -m venv --without-pip /opt/fifo-proxy \
 && pip --python /opt/fifo-proxy/bin/python install --no-cache-dir --disable-pip-version-check '.[otel,postgres]'

FROM ${BASE}
# 1000 is also the first user of most machines: a configuration readable by its owner only can then be mounted.
RUN useradd --uid 1000 --no-create-home --home-dir /app --shell /usr/sbin/nologin fifo
COPY --from=build /opt/fifo-proxy /opt/fifo-proxy
COPY config.json /app/
# Where a relative path leads, that of the jobs' database by default: give it a volume and accepted jobs survive.
RUN mkdir --mode 700 /data && chown 1000:1000 /data
WORKDIR /data
ENV PATH=/opt/fifo-proxy/bin:$PATH \
    FIFO_PROXY_CONFIG=/app/config.json
USER 1000:1000
# 8080: the users' traffic. 8081: dashboard, status, metrics; bound to loopback unless the configuration says otherwise.
EXPOSE 8080 8081
# Plain http.client: it does not ask HTTP_PROXY for the way to our own port.
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import os, http.client as http; link = http.HTTPConnection('127.0.0.1', int(os.environ.get('FIFO_PROXY_ADMIN_PORT', 8081)), timeout=4); link.request('GET', '/healthz'); raise SystemExit(link.getresponse().status != 200)"]
# Exec form: the proxy is process 1 and gets SIGTERM itself. It waits for its own children;
# only node commands that leave processes behind need `docker run --init`.
ENTRYPOINT ["fifo-proxy"]
CMD ["serve"]
