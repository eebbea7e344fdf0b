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
RUN pip install --no-cache-dir /wheels/*.whl \
    && rm -r /wheels \
    && useradd --system --create-home broker
USER broker
ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["broker"]
CMD ["serve"]
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s --retries=3 CMD ["broker", "agents", "--health"]
