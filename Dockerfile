FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY broker broker
COPY agents agents
COPY gridbroker_client gridbroker_client
COPY config config
COPY schema schema
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
# The database is another container, so the extra "embedded" is left out.
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt "$(echo /wheels/*.whl)[api,fast,web,rucio,telemetry]" \
    && rm -r /wheels \
    && useradd --system --create-home broker \
    && install -d -o broker -g broker /var/lib/gridbroker
USER broker
# The token of the API is kept here.
ENV PYTHONUNBUFFERED=1 BROKER_HOME=/var/lib/gridbroker
VOLUME /var/lib/gridbroker
ENTRYPOINT ["broker"]
# A service whose cycles hang or fail for two minutes ends with status 1, so that a restart policy can restart it.
CMD ["serve", "--end-when-unhealthy", "120"]
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s --retries=3 CMD ["broker", "agents", "--health"]
