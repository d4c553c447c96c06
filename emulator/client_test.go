package emulator_test

import (
	"context"
	"testing"

	"cloud.google.com/go/firestore"
)

// What users do: the variable, and the client as it comes.
func TestEmulatorHostVariable(t *testing.T) {
	in := start(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", in.Addr)
	ctx := context.Background()
	for _, database := range []string{firestore.DefaultDatabaseID, "second"} {
		c, err := firestore.NewClientWithDatabase(ctx, "variable", database)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Doc("a/1").Create(ctx, fields{"database": database}); err != nil {
			t.Fatal(err)
		}
		colls, err := c.Collections(ctx).GetAll() // for administrators only
		if err != nil || len(colls) != 1 {
			t.Errorf("collections are %v, %v", colls, err)
		}
	}
}
