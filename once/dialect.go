package once

import (
	"fmt"
	"regexp"
	"strings"
)

// Dialect is the kind of SQL that a database speaks.
type Dialect int

const (
	SQLite     Dialect = iota + 1 // 3.24 or later
	PostgreSQL                    // 9.5 or later
	MySQL                         // and MariaDB; 5.7 and 10.2 or later, tables of a transactional engine such as InnoDB
)

var dialects = map[Dialect]string{SQLite: "SQLite", PostgreSQL: "PostgreSQL", MySQL: "MySQL"}

func (d Dialect) String() string {
	if name := dialects[d]; name != "" {
		return name
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// statements are the statements on one table.
type statements struct {
	probe  string // names every column, and reads nothing
	create string
	insert string // stream, consumer, sequence, published, done: no row is affected where it is there already
	bound  string // stream, consumer, floor: the sequence of the last row of a batch, none where there is less than one
	remove string // stream, consumer, bound, done before
}

// Names of streams and consumers are compared byte by byte everywhere: "orders" and "Orders" are two consumers, also to a MySQL whose default
// is to see one in them. The server's names have 255 bytes at the most.
var createTable = map[Dialect]string{
	SQLite: `CREATE TABLE IF NOT EXISTS %s (stream TEXT NOT NULL, consumer TEXT NOT NULL, sequence INTEGER NOT NULL, published INTEGER NOT NULL,
 done INTEGER NOT NULL, PRIMARY KEY (stream, consumer, sequence, published)) WITHOUT ROWID`,
	PostgreSQL: `CREATE TABLE IF NOT EXISTS %s (stream text COLLATE "C" NOT NULL, consumer text COLLATE "C" NOT NULL, sequence bigint NOT NULL,
 published bigint NOT NULL, done bigint NOT NULL, PRIMARY KEY (stream, consumer, sequence, published))`,
	MySQL: `CREATE TABLE IF NOT EXISTS %s (stream VARBINARY(255) NOT NULL, consumer VARBINARY(255) NOT NULL, sequence BIGINT NOT NULL,
 published BIGINT NOT NULL, done BIGINT NOT NULL, PRIMARY KEY (stream, consumer, sequence, published)) ENGINE=InnoDB`,
}

const longestName = 255 // bytes

// statementsFor makes the statements for a table, whose name is valid.
func statementsFor(d Dialect, table string) statements {
	t := quoted(d, table)
	insert := "INSERT INTO " + t + " (stream, consumer, sequence, published, done) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
	if d == MySQL {
		insert = "INSERT IGNORE INTO " + t + " (stream, consumer, sequence, published, done) VALUES (?, ?, ?, ?, ?)"
	}
	return statements{
		probe:  "SELECT stream, consumer, sequence, published, done FROM " + t + " WHERE 1 = 0",
		create: fmt.Sprintf(createTable[d], t),
		insert: placed(d, insert),
		bound: placed(d, fmt.Sprintf("SELECT sequence FROM %s WHERE stream = ? AND consumer = ? AND sequence <= ? ORDER BY sequence LIMIT 1 OFFSET %d",
			t, removeBatch-1)),
		remove: placed(d, "DELETE FROM "+t+" WHERE stream = ? AND consumer = ? AND sequence <= ? AND done < ?"),
	}
}

// placed writes the placeholders as the dialect has them.
func placed(d Dialect, query string) string {
	if d != PostgreSQL {
		return query
	}
	var b strings.Builder
	n := 0
	for _, c := range query {
		if c == '?' {
			n++
			fmt.Fprintf(&b, "$%d", n)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// tableName is what a table may be called, with or without its schema. It is quoted all the same, so that a keyword is a name like any other.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func quoted(d Dialect, table string) string {
	quote := `"`
	if d == MySQL {
		quote = "`"
	}
	return quote + strings.ReplaceAll(table, ".", quote+"."+quote) + quote
}
