-- The small database of the flow, for SQLite and PostgreSQL.
CREATE TABLE units (unit varchar(8), product varchar(40), limit_c real);
INSERT INTO units VALUES ('K1', 'frozen berries', -18);
INSERT INTO units VALUES ('K2', 'milk', 4);
CREATE TABLE readings (unit varchar(8), measured_at varchar(20), celsius real);
INSERT INTO readings VALUES ('K1', '2025-03-03 06:00', -19.5);
INSERT INTO readings VALUES ('K1', '2025-03-03 07:00', -19.0);
INSERT INTO readings VALUES ('K2', '2025-03-03 06:00', 3.5);
INSERT INTO readings VALUES ('K2', '2025-03-03 07:00', 9.25);
