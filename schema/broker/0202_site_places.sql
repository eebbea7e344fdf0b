-- Where sites are, for the map: of CRIC's sites, or of the resource centres that they belong to. A site without a row is unknown.
CREATE TABLE broker.site_places (
    site_name text NOT NULL,
    latitude double precision NOT NULL,
    longitude double precision NOT NULL,
    PRIMARY KEY (site_name)
);
COMMENT ON COLUMN broker.site_places.latitude IS 'degrees north, -90 to 90';
COMMENT ON COLUMN broker.site_places.longitude IS 'degrees east, -180 to 180';
