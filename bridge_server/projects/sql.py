"""The statements of the project store."""

_PROJECT = """
id, project_id, name, created_at_ms, account_burst, account_interval_us, webhook_url, webhook_secret
"""

INSERT_PROJECT = """
INSERT INTO projects (project_id, name, created_at_ms) VALUES (?, ?, ?) ON CONFLICT (project_id) DO NOTHING
"""
PROJECT = f"SELECT {_PROJECT} FROM projects WHERE project_id = ?"  # noqa: S608 - columns, no input
# Each project with its types, its subscribers, and its figures of the given days and of the last of them.
OVERVIEW = f"""
SELECT {_PROJECT},
    (SELECT json_group_array(json_array(type_id, name, created_at_ms)) FROM (
        SELECT type_id, name, created_at_ms FROM notification_types
        WHERE notification_types.project = projects.id AND removed_at_ms IS NULL ORDER BY id) AS available),
    (SELECT coalesce(sum(subscribers), 0) FROM type_sets WHERE type_sets.project = projects.id),
    (SELECT json_array(coalesce(sum(CASE WHEN daily_figures.day = ?2 THEN daily_figures.sent END), 0),
            coalesce(sum(daily_figures.sent), 0), coalesce(sum(daily_figures.read), 0),
            coalesce(sum(daily_figures.bulk_marked), 0), coalesce(sum(daily_figures.lapsed), 0))
     FROM notification_types CROSS JOIN daily_figures ON daily_figures.project = notification_types.project
        AND daily_figures.type = notification_types.id AND daily_figures.day BETWEEN ?1 AND ?2
     WHERE notification_types.project = projects.id)
FROM projects WHERE project_id IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4
"""  # noqa: S608 - columns, no input
COUNT_PROJECTS = "SELECT COUNT(*) FROM projects WHERE project_id IS NOT NULL"
HIDE_PROJECT = "UPDATE projects SET project_id = NULL, webhook_url = NULL, webhook_secret = NULL WHERE id = ?"
SET_ACCOUNT_LIMIT = "UPDATE projects SET account_burst = ?, account_interval_us = ? WHERE id = ?"
SET_WEBHOOK = "UPDATE projects SET webhook_url = ?, webhook_secret = ? WHERE id = ?"

INSERT_SECRET = """
INSERT INTO project_secrets (project, digest, created_at_ms) VALUES (?, ?, ?) RETURNING id
"""  # noqa: S105 - a statement
SECRETS = "SELECT id, created_at_ms FROM project_secrets WHERE project = ? ORDER BY id"
DIGESTS = f"""
SELECT project_secrets.digest, {", ".join("projects." + column.strip() for column in _PROJECT.split(","))}
FROM projects LEFT JOIN project_secrets ON project_secrets.project = projects.id WHERE projects.project_id = ?
"""  # noqa: S608 - columns, no input
PUBLISHING_PROJECT = f"""
SELECT {", ".join("projects." + column.strip() for column in _PROJECT.split(","))}
FROM project_secrets CROSS JOIN projects ON projects.id = project_secrets.project
WHERE project_secrets.project = ? AND project_secrets.digest = ? AND projects.project_id IS NOT NULL
"""  # noqa: S608 - columns, no input
DELETE_SECRET = "DELETE FROM project_secrets WHERE project = ? AND id = ?"  # noqa: S105 - a statement
DELETE_SECRETS = "DELETE FROM project_secrets WHERE project = ?"

TYPES = """
SELECT id, type_id, name, created_at_ms FROM notification_types
WHERE project = ? AND removed_at_ms IS NULL ORDER BY id
"""
UPSERT_TYPE = """
INSERT INTO notification_types (project, type_id, name, created_at_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (project, type_id) DO UPDATE
SET name = excluded.name, created_at_ms = excluded.created_at_ms, removed_at_ms = NULL
RETURNING id
"""
RENAME_TYPE = "UPDATE notification_types SET name = ? WHERE id = ?"
REMOVE_TYPE = "UPDATE notification_types SET removed_at_ms = ? WHERE id = ?"
TYPE_SETS_WITH = """
SELECT type_sets.id, type_sets.types FROM type_set_members
JOIN type_sets ON type_sets.id = type_set_members.type_set WHERE type_set_members.type = ?
"""
TYPE_SETS_OF_ALL = "SELECT id FROM type_sets WHERE project = ? AND follows_all = 1"
REWRITE_TYPE_SET = "UPDATE type_sets SET types = ? WHERE id = ?"
INSERT_MEMBER = "INSERT INTO type_set_members (type, type_set) VALUES (?, ?)"
DELETE_TYPE_MEMBERSHIPS = "DELETE FROM type_set_members WHERE type = ?"

COUNT_SUBSCRIBERS = "SELECT coalesce(sum(subscribers), 0) FROM type_sets WHERE project = ?"
FIGURES = """
SELECT notification_types.type_id, daily_figures.day, daily_figures.sent, daily_figures.read,
       daily_figures.bulk_marked, daily_figures.lapsed
FROM notification_types CROSS JOIN daily_figures ON daily_figures.project = notification_types.project
    AND daily_figures.type = notification_types.id AND daily_figures.day BETWEEN ? AND ?
WHERE notification_types.project = ?
ORDER BY daily_figures.day, notification_types.id
"""

DELETED_PROJECT = "SELECT id FROM projects WHERE project_id IS NULL ORDER BY id LIMIT 1"
