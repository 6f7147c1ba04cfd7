//go:build go1.21

package fencepost

import (
	"fmt"
	"log/slog"
	"unicode/utf8"
)

// maxLogged is the longest result in a log, in bytes.
const maxLogged = 100

// LogValue is the job as log/slog writes it: a group of its fields, without those that are nil, and a result of more than
// 100 bytes cut. Needs Go 1.21.
func (j Job) LogValue() slog.Value {
	fields := []slog.Attr{slog.String("id", j.ID)}
	if j.Owner != nil {
		fields = append(fields, slog.String("owner", *j.Owner))
	}
	fields = append(fields, slog.Time("until", j.Until), slog.Int64("fence", j.Fence), slog.Bool("done", j.Done))
	if j.Result != nil {
		fields = append(fields, slog.String("result", cut(*j.Result)))
	}
	return slog.GroupValue(fields...)
}

// cut shortens a text to maxLogged bytes, at a character, and says how long it was.
func cut(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	end := maxLogged
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes)", text[:end], len(text))
}
