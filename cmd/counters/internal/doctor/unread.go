package doctor

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unread is that a part of a deployment could not be read, and what would let it.
type unread struct {
	part       string
	service    string // the API's name, such as run.googleapis.com
	permission string
	role       string // the narrowest one with the permission
	account    string // the billing account that it is given on; empty for the project
	err        error
}

func (u *unread) Error() string { return "read " + u.part + ": " + u.err.Error() }

func (u *unread) Unwrap() error { return u.err }

func (u *unread) notChecked(project string) NotChecked {
	n := NotChecked{Part: u.part, Why: firstLine(u.err)}
	switch {
	case errors.Is(u.err, context.DeadlineExceeded) || status.Code(u.err) == codes.DeadlineExceeded:
		n.Why = fmt.Sprintf("%s did not answer within %s", u.service, patience)
	case strings.Contains(u.err.Error(), "could not find default credentials") || isCode(u.err, codes.Unauthenticated, 401):
		n.Why = "there are no credentials, or they have expired"
		n.Fix = line("gcloud", "auth", "application-default", "login")
	case disabled(u.err):
		n.Why = u.service + " is turned off in the project"
		n.Fix = enable(u.service, project)
	case isCode(u.err, codes.NotFound, 404):
		n.Why = "it is not there: " + firstLine(u.err)
	case isCode(u.err, codes.PermissionDenied, 403):
		n.Why = fmt.Sprintf("it takes the permission %s, which %s has (%s)", u.permission, u.role, firstLine(u.err))
		grant := line("gcloud", "projects", "add-iam-policy-binding", project, "--role="+u.role, "--condition=None")
		if u.account != "" {
			grant = line("gcloud", "billing", "accounts", "add-iam-policy-binding", path.Base(u.account), "--role="+u.role)
		}
		n.Fix = grant + ` --member="user:$(gcloud config get account)"`
	}
	return n
}

func isCode(err error, code codes.Code, http int) bool {
	if rest, ok := errors.AsType[*googleapi.Error](err); ok {
		return rest.Code == http
	}
	return status.Code(err) == code
}

// disabled reports whether the API is turned off in the project, which is answered like a missing
// permission.
func disabled(err error) bool {
	if api, ok := apierror.FromError(err); ok && api.Reason() == "SERVICE_DISABLED" {
		return true
	}
	return strings.Contains(err.Error(), "it is disabled. Enable it by visiting")
}

// firstLine is the first line of an error's message, without what the client library puts around
// it.
func firstLine(err error) string {
	message := err.Error()
	var rest *googleapi.Error
	if errors.As(err, &rest) && rest.Message != "" {
		message = rest.Message
	} else if s, ok := status.FromError(err); ok {
		message = s.Message()
	}
	message, _, _ = strings.Cut(strings.TrimSpace(message), "\n")
	return message
}
