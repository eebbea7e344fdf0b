-- Versions of the tuning. A version holds every row of our keys, so that the version in a decision says by what it was
-- tuned, and the last good value of each row, so that a wrong row does not lose it across a restart.

CREATE TABLE broker.gdpconfig_versions (
    version bigint PRIMARY KEY CHECK (version > 0),
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    editor text NOT NULL,
    reason text NOT NULL,
    fingerprint text NOT NULL,
    rows jsonb NOT NULL,
    last_good jsonb NOT NULL
);

-- What each version changed, row by row: the audit trail. An old or new value is [value, type, value_json].
CREATE TABLE broker.gdpconfig_changes (
    version bigint NOT NULL REFERENCES broker.gdpconfig_versions,
    app text NOT NULL,
    component text NOT NULL,
    key text NOT NULL,
    vo text NOT NULL,
    action text NOT NULL CHECK (action IN ('set', 'unset')),
    old_value jsonb,
    new_value jsonb,
    PRIMARY KEY (version, app, component, key, vo)
);
CREATE INDEX gdpconfig_changes_key_idx ON broker.gdpconfig_changes (key, version DESC);
