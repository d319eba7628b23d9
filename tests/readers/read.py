"""Says, as JSON, what DuckDB and pandas see of a table in both of its forms: argv is the Parquet file,
the CSV file, and the column whose mean is asked for by run and cell."""

import json
import sys

import duckdb
import pandas

parquet, csv, column = sys.argv[1:]


def by_duckdb(source):
    def ask(query):
        return duckdb.sql(query.format(source=source)).fetchall()

    return {
        "types": {row[0]: row[1] for row in ask("DESCRIBE SELECT * FROM {source}")},
        "rows": ask("SELECT count(*) FROM {source}")[0][0],
        "void": ask("SELECT count(void_reason) FROM {source} WHERE outcome = 'void'")[0][0],
        "started": [
            str(row[0])
            for row in ask("SELECT DISTINCT run_started_at FROM {source} ORDER BY run_started_at")
        ],
        "means": [
            list(row)
            for row in ask(
                "SELECT scenario, cell, avg(" + column + ") FROM {source} "
                "WHERE " + column + " IS NOT NULL GROUP BY ALL ORDER BY ALL"
            )
        ],
    }


def by_pandas(frame):
    means = frame.dropna(subset=[column]).groupby(["scenario", "cell"])[column].mean()
    return {
        "types": {name: str(kind) for name, kind in frame.dtypes.items()},
        "rows": len(frame),
        "void": int(frame[frame["outcome"] == "void"]["void_reason"].count()),
        "started": sorted(str(time) for time in frame["run_started_at"].unique()),
        "means": [[*key, mean] for key, mean in means.sort_index().items()],
    }


json.dump(
    {
        "duckdb_parquet": by_duckdb(f"read_parquet('{parquet}')"),
        # Types are guessed from all rows, not from the first.
        "duckdb_csv": by_duckdb(f"read_csv('{csv}', header = true, sample_size = -1)"),
        "pandas_parquet": by_pandas(pandas.read_parquet(parquet)),
        "pandas_csv": by_pandas(pandas.read_csv(csv, parse_dates=["run_started_at"])),
        "metadata": {
            bytes(key).decode(): bytes(value).decode()
            for key, value in duckdb.sql(
                f"SELECT key, value FROM parquet_kv_metadata('{parquet}')"
            ).fetchall()
        },
    },
    sys.stdout,
)
