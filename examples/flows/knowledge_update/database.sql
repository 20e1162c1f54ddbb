-- The small database of the flow, for SQLite and PostgreSQL.
CREATE TABLE releases (title varchar(40), version varchar(10), released varchar(10), status varchar(10));
INSERT INTO releases VALUES ('借阅规则', '2023', '2023-02-01', '已废止');
INSERT INTO releases VALUES ('借阅规则', '2025', '2025-03-01', '有效');
INSERT INTO releases VALUES ('夜间开放', '草案', '2025-05-20', '草案');
