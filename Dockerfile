# The base has Python 3.11 or later with its module venv: a Debian with python3-venv does too.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# The database is another container, so "embedded" is left out. Without "fast" the image is 200 MB smaller, and a cycle
# over a large grid takes several times as long.
ARG EXTRAS=api,fast,web,rucio,telemetry
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY broker broker
COPY agents agents
COPY gridbroker_client gridbroker_client
COPY config config
COPY schema schema
# pip stays behind: nothing is installed later.
RUN python3 -m venv /opt/gridbroker \
    && /opt/gridbroker/bin/pip install --no-cache-dir --constraint constraints.txt ".[$EXTRAS]" \
    && /opt/gridbroker/bin/pip uninstall --yes pip \
    && find /opt/gridbroker -name __pycache__ -prune -exec rm -r {} +

FROM ${BASE}
COPY --from=build /opt/gridbroker /opt/gridbroker
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/gridbroker --shell /usr/sbin/nologin broker \
    && install -d -m 0700 -o broker -g broker /var/lib/gridbroker
# By number, so that Kubernetes knows that it is not root.
USER 10001:10001
WORKDIR /var/lib/gridbroker
# The token of the API and the compiled loop are kept here; the rest of the image is only read, /tmp but for temporary files.
ENV PATH=/opt/gridbroker/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    BROKER_HOME=/var/lib/gridbroker
VOLUME /var/lib/gridbroker
ENTRYPOINT ["broker"]
# A service whose cycles hang or fail for two minutes ends with status 1, so that a restart policy can restart it.
CMD ["serve", "--end-when-unhealthy", "120"]
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s --retries=3 CMD ["broker", "agents", "--health"]
