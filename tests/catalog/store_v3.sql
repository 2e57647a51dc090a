CREATE TABLE penstock_catalogs (
	catalog_name VARCHAR(255) NOT NULL,
	definition TEXT NOT NULL,
	PRIMARY KEY (catalog_name)
);
INSERT INTO "penstock_catalogs" VALUES('kept','{"v": 1, "options": [["type", "penstock"]], "comment": "of the house"}');
CREATE TABLE penstock_databases (
	catalog_name VARCHAR(255) NOT NULL,
	database_name VARCHAR(255) NOT NULL,
	definition TEXT NOT NULL,
	PRIMARY KEY (catalog_name, database_name)
);
INSERT INTO "penstock_databases" VALUES('default_catalog','sales','{"v": 1, "options": [], "comment": "it''s ours"}');
CREATE TABLE penstock_functions (
	catalog_name VARCHAR(255) NOT NULL,
	database_name VARCHAR(255) NOT NULL,
	function_name VARCHAR(255) NOT NULL,
	definition TEXT NOT NULL,
	PRIMARY KEY (catalog_name, database_name, function_name)
);
INSERT INTO "penstock_functions" VALUES('default_catalog','default_database','discount','{"v": 1, "name": ["default_catalog", "default_database", "discount"], "code": "shop.discount", "language": "PYTHON", "jars": ["a.jar"]}');
CREATE TABLE penstock_leases (
	pipeline VARCHAR(512) NOT NULL,
	fence BIGINT NOT NULL,
	token VARCHAR(64) NOT NULL,
	host VARCHAR(255) NOT NULL,
	pid BIGINT NOT NULL,
	boot_id VARCHAR(255) NOT NULL,
	started BIGINT,
	since_ms BIGINT NOT NULL,
	heartbeat_ms BIGINT NOT NULL,
	PRIMARY KEY (pipeline)
);
INSERT INTO "penstock_leases" VALUES('job/t',1,'t0','db-7',4711,'b',5,1795305690000,1795305690000);
CREATE TABLE penstock_objects (
	catalog_name VARCHAR(255) NOT NULL,
	database_name VARCHAR(255) NOT NULL,
	object_name VARCHAR(255) NOT NULL,
	kind VARCHAR(16) NOT NULL,
	definition TEXT NOT NULL,
	PRIMARY KEY (catalog_name, database_name, object_name)
);
INSERT INTO "penstock_objects" VALUES('default_catalog','default_database','orders','table','{"v": 1, "name": ["default_catalog", "default_database", "orders"], "comment": "every order", "temporary": false, "kind": "table", "schema": {"columns": [{"name": "id", "type": "BIGINT NOT NULL", "comment": "the key", "kind": "physical"}, {"name": "ts", "type": "TIMESTAMP(3)", "comment": null, "kind": "physical"}, {"name": "off", "type": "BIGINT", "comment": null, "kind": "metadata", "key": "offset", "virtual": true}, {"name": "day", "type": null, "comment": null, "kind": "computed", "expression": "CAST(`ts` AS DATE)"}], "watermark": ["ts", "`ts` - INTERVAL ''5'' SECOND"], "primary_key": {"name": null, "columns": ["id"]}}, "options": [["connector", "kafka"], ["topic", "o''r\"ders ü"]], "partition_keys": [], "distribution": null, "materialization": null}');
INSERT INTO "penstock_objects" VALUES('default_catalog','sales','totals','view','{"v": 1, "name": ["default_catalog", "sales", "totals"], "comment": null, "temporary": false, "kind": "view", "query": "SELECT id FROM orders", "columns": []}');
INSERT INTO "penstock_objects" VALUES('kept','default_database','raw','table','{"v": 1, "name": ["kept", "default_database", "raw"], "comment": null, "temporary": false, "kind": "table", "schema": {"columns": [{"name": "x", "type": "STRING", "comment": null, "kind": "physical"}], "watermark": null, "primary_key": null}, "options": [["connector", "datagen"]], "partition_keys": [], "distribution": null, "materialization": null}');
CREATE TABLE penstock_schema_version (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
);
INSERT INTO "penstock_schema_version" VALUES(1);
INSERT INTO "penstock_schema_version" VALUES(2);
INSERT INTO "penstock_schema_version" VALUES(3);
CREATE TABLE penstock_stop_requests (
	pipeline VARCHAR(512) NOT NULL,
	fence BIGINT NOT NULL,
	PRIMARY KEY (pipeline)
);
INSERT INTO "penstock_stop_requests" VALUES('job/t',1);
