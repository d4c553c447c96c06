package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/loopback"
)

// serveAdmin answers what tools ask of an emulator:
//
//	DELETE /emulator/v1/projects/{p}/databases/{d}/documents[/{path}]
//		deletes it, with everything below
//	POST /reset
//		deletes everything in all databases
//	PUT /emulator/v1/projects/{p}/triggers/{key}
//		registers a trigger of the first generation
//	POST /emulator/v1/projects/{p}/eventarcTrigger?eventarcTriggerId={key}
//		registers one of the second
//
// Pages of foreign origins may call none of it, also where they may call everything else: they
// would come through the browser of whoever runs the server.
//
// Triggers may be registered, so that tools that do start, but get no events: this server delivers
// those itself, to whom it is told to in the program that it is embedded in.
func (h *Handler) serveAdmin(w http.ResponseWriter, r *http.Request) {
	resp, err := h.admin(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, resp)
}

func (h *Handler) admin(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if !loopback.Origin(r, h.Hosts...) {
		return nil, status.Errorf(codes.PermissionDenied, "Pages of %s may not control this server.", r.Header.Get("Origin"))
	}
	if r.Method == http.MethodPost && r.URL.Path == "/reset" {
		h.Reset()
		return []byte("{}"), nil
	}
	ids := strings.Split(strings.TrimPrefix(strings.TrimSuffix(r.URL.EscapedPath(), "/"), "/emulator/v1/"), "/")
	if ids[0] != "projects" {
		return nil, notCovered(r)
	}
	switch {
	case r.Method == http.MethodDelete && len(ids) >= 5 && ids[2] == "databases" && ids[4] == "documents":
		name, err := unescape(ids)
		if err != nil {
			return nil, err
		}
		return []byte("{}"), h.Clear(name)
	case r.Method == http.MethodPut && len(ids) == 4 && ids[2] == "triggers":
		_, err := h.trigger(w, r, ids[3])
		return []byte("{}"), err
	case r.Method == http.MethodPost && len(ids) == 3 && ids[2] == "eventarcTrigger":
		return h.trigger(w, r, r.URL.Query().Get("eventarcTriggerId"))
	case r.Method == http.MethodPut && (len(ids) == 2 || len(ids) == 4 && ids[2] == "databases") && strings.HasSuffix(ids[len(ids)-1], ":securityRules"):
		return nil, status.Error(codes.Unimplemented, "Security rules aren't evaluated here: everybody may do everything. "+
			"For tests of rules start the official emulator (gcloud emulators firestore start) and name it in FIRESTORE_EMULATOR_HOST.")
	}
	return nil, notCovered(r)
}

// unescape puts the ids of a path together.
func unescape(ids []string) (name string, err error) {
	plain := make([]string, len(ids))
	for i, id := range ids {
		if plain[i], err = url.PathUnescape(id); err != nil || strings.Contains(plain[i], "/") {
			return "", status.Errorf(codes.InvalidArgument, "%q is not a valid id.", id)
		}
	}
	return strings.Join(plain, "/"), nil
}

// trigger reads a registration and returns it.
func (h *Handler) trigger(w http.ResponseWriter, r *http.Request, key string) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	var registration map[string]any
	if key == "" || json.Unmarshal(body, &registration) != nil {
		return nil, status.Error(codes.InvalidArgument, "A trigger has a key, and its registration is a JSON object.")
	}
	h.Logger.Warn("a trigger was registered, which will get no events from this server", "trigger", key, "registration", registration)
	return body, nil
}
