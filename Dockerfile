FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY broker broker
COPY agents agents
COPY config config
COPY schema schema
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt /wheels/*.whl \
    && rm -r /wheels \
    && useradd --system --create-home broker
USER broker
ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["broker"]
# A service whose cycles hang or fail for two minutes ends with status 1, so that a restart policy can restart it.
CMD ["serve", "--end-when-unhealthy", "120"]
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s --retries=3 CMD ["broker", "agents", "--health"]
