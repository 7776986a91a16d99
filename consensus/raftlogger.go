package consensus

import (
	"context"
	"fmt"
	"log/slog"
)

// raftLogger passes on the log lines of raft. Those about elections have level Debug, because Role reports elections.
type raftLogger struct{ log *slog.Logger }

func (l raftLogger) print(level slog.Level, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "raft: "+fmt.Sprint(v...))
	}
}

func (l raftLogger) printf(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "raft: "+fmt.Sprintf(format, v...))
	}
}

func (l raftLogger) Debug(v ...any)              { l.print(slog.LevelDebug, v) }
func (l raftLogger) Debugf(f string, v ...any)   { l.printf(slog.LevelDebug, f, v) }
func (l raftLogger) Info(v ...any)               { l.print(slog.LevelDebug, v) }
func (l raftLogger) Infof(f string, v ...any)    { l.printf(slog.LevelDebug, f, v) }
func (l raftLogger) Warning(v ...any)            { l.print(slog.LevelWarn, v) }
func (l raftLogger) Warningf(f string, v ...any) { l.printf(slog.LevelWarn, f, v) }
func (l raftLogger) Error(v ...any)              { l.print(slog.LevelError, v) }
func (l raftLogger) Errorf(f string, v ...any)   { l.printf(slog.LevelError, f, v) }

// Raft calls these when its invariants are broken. To continue could lose committed entries.
func (l raftLogger) Fatal(v ...any)            { panic("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(f string, v ...any) { panic("raft: " + fmt.Sprintf(f, v...)) }
func (l raftLogger) Panic(v ...any)            { panic("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Panicf(f string, v ...any) { panic("raft: " + fmt.Sprintf(f, v...)) }
