"""The changes of a PostgreSQL database as records of the topic `changes`.

python capture.py install postgresql:///shop             # once: triggers on every table of the schema `public` that has a primary key
python capture.py run postgresql:///shop --bootstrap 127.0.0.1:9092

Triggers write every change into a table beside the others, in the transaction that makes it; `run` sends what is there in the order of transactions, and removes it when the
brokers have it. Killed in between it sends some again: positions tell that they are not newer. A change of columns is seen by an event trigger, which needs a superuser.
"""

import json
import time

import click
import psycopg

from barnabas.pipelines import feeding

TOPIC = "changes"
#: How many changes are sent and removed at a time, and how long to wait when there are none.
CHUNK = 5_000
PAUSE_S = 0.2

INSTALL = """
CREATE SCHEMA IF NOT EXISTS barnabas_capture;
CREATE TABLE IF NOT EXISTS barnabas_capture.changes (
    position bigserial PRIMARY KEY, transaction xid8 NOT NULL DEFAULT pg_current_xact_id(), key jsonb NOT NULL, value jsonb);
CREATE TABLE IF NOT EXISTS barnabas_capture.versions (
    "table" text PRIMARY KEY, version int NOT NULL, columns jsonb NOT NULL, file oid);

CREATE OR REPLACE FUNCTION barnabas_capture.columns(of regclass) RETURNS jsonb LANGUAGE sql STABLE AS $$
    -- The ids of a table that is made anew must be other ones: the table's own number is part of them.
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'id', of::oid::bigint * 2048 + a.attnum, 'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
        'key', coalesce(a.attnum = ANY(i.indkey), false),
        'default', CASE WHEN a.atthasmissing THEN to_jsonb(a.attmissingval) -> 0 END) ORDER BY a.attnum), '[]')
    FROM pg_attribute a JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
    WHERE a.attrelid = of AND a.attnum > 0 AND NOT a.attisdropped
$$;

-- Note the columns of a table if they are new; a table that is gone has none. True if its rows were written anew on the way, and must be sent again.
CREATE OR REPLACE FUNCTION barnabas_capture.note(name text, now_columns jsonb, now_file oid) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE now_version int; before_file oid := (SELECT file FROM barnabas_capture.versions WHERE "table" = name);
BEGIN
    INSERT INTO barnabas_capture.versions AS v VALUES (name, 1, now_columns, now_file)
    ON CONFLICT ("table") DO UPDATE SET version = v.version + 1, columns = now_columns, file = now_file WHERE v.columns <> now_columns
    RETURNING version INTO now_version;
    IF now_version IS NOT NULL THEN
        INSERT INTO barnabas_capture.changes (key, value)
        VALUES (jsonb_build_array(name, jsonb_build_object('schema', now_version)), jsonb_build_object('columns', now_columns));
    END IF;
    RETURN now_version IS NOT NULL AND before_file IS DISTINCT FROM now_file;
END $$;

CREATE OR REPLACE FUNCTION barnabas_capture.row_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE before jsonb; after jsonb;
BEGIN
    IF TG_OP <> 'INSERT' THEN before := barnabas_capture.key_of(TG_RELID, TG_TABLE_NAME, to_jsonb(OLD)); END IF;
    IF TG_OP <> 'DELETE' THEN after := barnabas_capture.key_of(TG_RELID, TG_TABLE_NAME, to_jsonb(NEW)); END IF;
    IF before IS NOT NULL AND before IS DISTINCT FROM after THEN
        INSERT INTO barnabas_capture.changes (key) VALUES (before);
    END IF;
    IF after IS NOT NULL THEN
        INSERT INTO barnabas_capture.changes (key, value) SELECT after, jsonb_build_object('schema', version, 'row', to_jsonb(NEW))
        FROM barnabas_capture.versions WHERE "table" = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION barnabas_capture.key_of(of regclass, name text, found jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(name) || jsonb_agg(found -> a.attname::text ORDER BY a.attnum)
    FROM pg_attribute a JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
    WHERE a.attrelid = of AND a.attnum = ANY(i.indkey)
$$;

CREATE OR REPLACE FUNCTION barnabas_capture.emptied() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    EXECUTE format('INSERT INTO barnabas_capture.changes (key) SELECT barnabas_capture.key_of(%L, %L, to_jsonb(t)) FROM %s AS t',
        TG_RELID, TG_TABLE_NAME, TG_RELID::regclass);
    RETURN NULL;
END $$;

-- Look at all tables: new ones get their triggers and their rows are sent, changed columns are noted, and so is the end of those that are gone.
CREATE OR REPLACE FUNCTION barnabas_capture.look() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE each record;
BEGIN
    FOR each IN SELECT c.oid::regclass AS place, c.relname::text AS name, c.relfilenode AS file, t.oid IS NULL AS is_new
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
        JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
        LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = 'barnabas_capture'
        WHERE c.relkind = 'r' ORDER BY c.relname LOOP
        IF barnabas_capture.note(each.name, barnabas_capture.columns(each.place), each.file) THEN
            EXECUTE format('INSERT INTO barnabas_capture.changes (key, value) SELECT barnabas_capture.key_of(%L, %L, to_jsonb(t)), '
                'jsonb_build_object(''schema'', version, ''row'', to_jsonb(t)) FROM %s AS t, barnabas_capture.versions '
                'WHERE "table" = %L', each.place, each.name, each.place, each.name);
        END IF;
        IF each.is_new THEN
            EXECUTE format('CREATE TRIGGER barnabas_capture AFTER INSERT OR UPDATE OR DELETE ON %s '
                'FOR EACH ROW EXECUTE FUNCTION barnabas_capture.row_changed()', each.place);
            EXECUTE format('CREATE TRIGGER barnabas_capture_emptied BEFORE TRUNCATE ON %s '
                'FOR EACH STATEMENT EXECUTE FUNCTION barnabas_capture.emptied()', each.place);
        END IF;
    END LOOP;
    PERFORM barnabas_capture.note("table", '[]', NULL) FROM barnabas_capture.versions
    WHERE to_regclass('public.' || quote_ident("table")) IS NULL;
END $$;

CREATE OR REPLACE FUNCTION barnabas_capture.on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM barnabas_capture.look(); END $$;
DROP EVENT TRIGGER IF EXISTS barnabas_capture_made;
DROP EVENT TRIGGER IF EXISTS barnabas_capture_dropped;
SELECT barnabas_capture.look();
CREATE EVENT TRIGGER barnabas_capture_made ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE')
    EXECUTE FUNCTION barnabas_capture.on_ddl();
CREATE EVENT TRIGGER barnabas_capture_dropped ON sql_drop WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION barnabas_capture.on_ddl();
"""

#: Transactions that are older than every one still open: nothing can appear before what is taken.
TAKE = """
SELECT position, key::text, value::text FROM barnabas_capture.changes
WHERE transaction < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY position LIMIT %s
"""


def as_event(position, key, value):
    """Make a change a record: numbers stay as PostgreSQL wrote them."""
    key = json.dumps(json.loads(key))
    if value is None:
        return feeding.Event(TOPIC, key, None, (("position", str(position).encode()),))
    return feeding.Event(TOPIC, key, f'{{"position": {position}, {value[1:]}')


def send(connection, bootstrap):
    """Send what is there, and remove it; return how much it was."""
    with connection.transaction():
        found = connection.execute(TAKE, [CHUNK]).fetchall()
        if found:
            feeding.feed((as_event(*each) for each in found), bootstrap)
            connection.execute(
                "DELETE FROM barnabas_capture.changes WHERE position = ANY(%s)",
                [[each[0] for each in found]],
            )
    return len(found)


@click.group(help=__doc__)
def main():
    pass


@main.command()
@click.argument("url")
def install(url):
    """Put the triggers in place; rows that are there already are sent, too."""
    with psycopg.connect(url) as connection:
        connection.execute(INSTALL)


@main.command()
@click.argument("url")
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True)
def run(url, bootstrap):
    """Send changes until it is stopped."""
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            if not send(connection, bootstrap):
                time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
