// A worker on goqite; see ../worker.py.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"maragu.dev/goqite"
)

var background = context.Background()

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// insisting makes the call again while the file is locked for too long, and answers how often.
func insisting(call func() error) (again int) {
	for {
		err := call()
		var busy sqlite3.Error
		if errors.As(err, &busy) && (busy.Code == sqlite3.ErrBusy || busy.Code == sqlite3.ErrLocked) {
			again++
			continue
		}
		check(err)
		return again
	}
}

func work(db *sql.DB, queue *goqite.Queue) {
	figures := struct {
		Jobs        []int   `json:"jobs"`
		LongestMs   float64 `json:"longest_ms"`
		Again       int     `json:"again"`
		Synchronous int     `json:"synchronous"`
	}{Jobs: []int{}}
	check(db.QueryRow("pragma synchronous").Scan(&figures.Synchronous))
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	for {
		begun := time.Now()
		var message *goqite.Message
		figures.Again += insisting(func() (err error) {
			message, err = queue.Receive(background)
			return err
		})
		if message == nil {
			break
		}
		number, err := strconv.Atoi(string(message.Body))
		check(err)
		figures.Jobs = append(figures.Jobs, number)
		figures.Again += insisting(func() error { return queue.Delete(background, message.ID) })
		if wait := time.Since(begun).Seconds() * 1e3; wait > figures.LongestMs {
			figures.LongestMs = wait
		}
	}
	fmt.Println("done")
	check(json.NewEncoder(os.Stdout).Encode(figures))
}

func main() {
	what, file := os.Args[2], os.Args[3]+"/queue.db"
	more := ""
	if len(os.Args) > 4 {
		more = os.Args[4]
	}
	source := file + "?_journal=WAL&_timeout=5000&_fk=true"
	if more == "full" {
		source += "&_sync=FULL"
	}
	db, err := sql.Open("sqlite3", source)
	check(err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	queue := goqite.New(goqite.NewOpts{DB: db, Name: "jobs"})
	if what == "work" {
		work(db, queue)
		return
	}
	// goqite's own, which the installation has put beside this program.
	program, err := os.Executable()
	check(err)
	schema, err := os.ReadFile(filepath.Join(filepath.Dir(program), "goqite.sql"))
	check(err)
	_, err = db.Exec(string(schema))
	check(err)
	count, err := strconv.Atoi(more)
	check(err)
	for number := 0; number < count; number++ {
		check(queue.Send(background, goqite.Message{Body: []byte(strconv.Itoa(number))}))
	}
}
