package functions

import (
	"io"
	"log/slog"
)

// LogPoison is the message of an event that can never be counted. A metric and an alert look for it.
const LogPoison = "poison event"

// newLogHandler writes one JSON object a line, with the field names that Cloud Logging understands.
func newLogHandler(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.MessageKey:
				a.Key = "message"
			case slog.LevelKey:
				a.Key = "severity"
				if a.Value.Any() == slog.LevelWarn {
					a.Value = slog.StringValue("WARNING") // Cloud Logging's name for it
				}
			}
			return a
		},
	})
}
