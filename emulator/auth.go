package emulator

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// checkAdmin refuses what only server-side clients may do: those that send "Bearer owner", as they
// do to an emulator, or an access token of Google's. There are no security rules; all else is open
// to everybody.
func checkAdmin(ctx context.Context, what string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get("authorization") {
		if token, ok := strings.CutPrefix(v, "Bearer "); ok && (token == "owner" || strings.HasPrefix(token, "ya29.")) {
			return nil
		}
	}
	return status.Errorf(codes.PermissionDenied, "%s needs an administrator: send the metadata authorization: Bearer owner.", what)
}
