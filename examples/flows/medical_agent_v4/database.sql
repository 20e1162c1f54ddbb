-- The small database of the flow, for SQLite and PostgreSQL. The people in it are made up.
CREATE TABLE patients (user_id varchar(20), diagnosis varchar(100), medications json, last_visit date);
INSERT INTO patients VALUES ('1', '高血压', '["氨氯地平", "缬沙坦"]', '2024-01-15');
INSERT INTO patients VALUES ('1', '胃炎', '[]', '2023-05-02');
INSERT INTO patients VALUES ('2', '糖尿病', '["二甲双胍"]', '2024-02-01');
