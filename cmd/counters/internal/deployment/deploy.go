package deployment

import (
	"archive/zip"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	source "github.com/firestore-counters/counters"
)

// Deployer deploys, or removes a deployment.
type Deployer struct {
	Wanted
	Cloud
	DryRun   bool
	Files    string                                          // where a dry run leaves what its commands read; it leaves nothing where this is empty
	Out      io.Writer                                       // what was made, or the commands of a dry run
	Estimate func(w *Wanted, edition string) (string, error) // what it costs, in a database of that edition
	Confirm  func() (bool, error)                            // whether to go on, once the plan was said

	dir, source, version string // of the files that commands read
	began                time.Time

	mu    sync.Mutex
	there map[string]Object // :: resource or fact → what was read of it
	seen  map[string]bool   // :: the same → it was looked for, and is there or isn't
	blind map[string]error  // :: the same → why it can't be read
	off   bool              // something can't be read before an API is turned on
}

// lines are errors, a line each.
func lines(all []string) error {
	errs := make([]error, len(all))
	for i, line := range all {
		errs[i] = errors.New(line)
	}
	return errors.Join(errs...)
}

// Deploy makes and changes what differs from what is wanted, which was checked. Errors: what can't be made, what keeps
// it from beginning, or the context's.
func (d *Deployer) Deploy(ctx context.Context) (err error) {
	d.began, d.project = time.Now(), d.Project
	for _, line := range d.warnings() {
		d.say("%s: warning: %s\n", d.Me, line)
	}
	if err := d.makeDir(); err != nil {
		return err
	}
	defer func() {
		if d.Files == "" || err != nil {
			_ = os.RemoveAll(d.dir)
		}
	}()
	if err := d.sources(ctx); err != nil {
		return err
	}
	if err := d.login(ctx); err != nil {
		if !d.DryRun || ctx.Err() != nil {
			return fmt.Errorf("nothing was made: %w", cmp.Or(ctx.Err(), err))
		}
		d.say("%s: the project can't be read, so these are the commands of a new deployment: %s\n", d.Me, firstLine(err))
		d.seen = map[string]bool{}
	} else {
		d.look(ctx)
		if err := d.refuse(); err != nil {
			return err
		}
	}
	if err := d.bounds(); err != nil {
		return fmt.Errorf("%w; nothing was made", err)
	}
	changes := d.changes()
	d.plan(changes)
	if d.DryRun {
		return d.print(changes)
	}
	if len(changes) > 0 {
		if yes, err := d.Confirm(); err != nil || !yes {
			return errors.Join(err, errors.New("nothing was made"))
		}
	}
	if err := d.write(); err != nil {
		return err
	}
	if apis := d.resource("APIs"); len(apis.Commands(d.lookAt("APIs"))) > 0 {
		if err := d.turnOn(ctx, apis); err != nil {
			return err
		}
		changes = d.changes()
		if err := d.write(); err != nil {
			return err
		}
	}
	before := maps.Clone(d.there)
	return d.done(ctx, before, d.bring(ctx, len(changes)))
}

// makeDir makes the folder of the files that commands read.
func (d *Deployer) makeDir() (err error) {
	if d.Files == "" {
		d.dir, err = os.MkdirTemp("", "counters-")
		return err
	}
	if d.dir, err = filepath.Abs(d.Files); err != nil {
		return err
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("--files %s: %w", d.Files, err)
	}
	if there, err := os.ReadDir(d.dir); err != nil || len(there) > 0 {
		return cmp.Or(err, fmt.Errorf("--files %s: want a folder that is empty, or isn't there yet", d.Files))
	}
	return nil
}

// turnOn turns APIs on, without which nothing else can be read, and reads it.
func (d *Deployer) turnOn(ctx context.Context, apis Resource) error {
	d.say("[%s] turns on APIs of %s\n", d.took(), d.Project)
	for _, command := range apis.Commands(d.lookAt("APIs")) {
		if err := d.patiently(ctx, "APIs", func() error { return d.run(ctx, command) }); err != nil {
			return fmt.Errorf("can't turn APIs on in project %s: %w", d.Project, err)
		}
	}
	return d.patiently(ctx, "APIs", func() error {
		d.forget()
		d.look(ctx)
		if d.off {
			return &Refused{Code: 403, Reason: "SERVICE_DISABLED", Message: "SERVICE_DISABLED"}
		}
		return d.refuse()
	})
}

// sources puts the functions' source where gcloud finds it, and notes its version: the contents of its files. Doctor
// tells by it that a deployment has not come to all functions.
func (d *Deployer) sources(ctx context.Context) error {
	if d.version != "" {
		return nil
	}
	d.source = filepath.Join(d.dir, "source")
	from := fs.FS(source.Source)
	if d.Source != "" {
		info, err := os.Stat(d.Source)
		switch {
		case err != nil:
			return fmt.Errorf("--source %s: want a folder with function.go, or a zip file of such a folder: %w", d.Source, err)
		case info.IsDir():
			if d.source, err = filepath.Abs(d.Source); err != nil {
				return err
			}
			from = nil
		default:
			archive, err := zip.OpenReader(d.Source)
			if err != nil {
				return fmt.Errorf("--source %s: %w", d.Source, err)
			}
			defer archive.Close()
			from = archive
		}
	}
	if from != nil {
		if err := os.CopyFS(d.source, from); err != nil {
			return fmt.Errorf("unpack the functions' source: %w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(d.source, "function.go")); err != nil {
		return fmt.Errorf("--source: want a folder with function.go, or a zip file of such a folder: %w", err)
	}
	var files []string
	if from != nil { // what the program carries beside them isn't uploaded
		if err := os.RemoveAll(filepath.Join(d.source, "terraform")); err != nil {
			return err
		}
		err := fs.WalkDir(os.DirFS(d.source), ".", func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && name != ".gcloudignore" {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return err
		}
	} else {
		list := exec.CommandContext(ctx, "gcloud", "meta", "list-files-for-upload", ".", "--project="+d.Project)
		list.Dir, list.Stderr = d.source, d.Said
		out, err := list.Output()
		if err != nil {
			return fmt.Errorf("--source %s: gcloud can't tell which files it uploads: %w", d.Source, err)
		}
		files = strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' || r == '\r' })
	}
	slices.Sort(files)
	hash := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(d.source, file))
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s\n%s", filepath.ToSlash(file), text)
	}
	d.version = fmt.Sprintf("%x", hash.Sum(nil))[:16]
	return nil
}

// list is the list, by what is known now.
func (d *Deployer) list() ([]Resource, *Builder) {
	dir, source := d.dir, d.source
	if d.DryRun && d.Files == "" { // they will be gone when somebody reads the commands
		dir = "DIR"
		if in, err := filepath.Rel(d.dir, source); err == nil && filepath.IsLocal(in) {
			source = filepath.Join(dir, in)
		}
	}
	b := &Builder{Wanted: &d.Wanted, Look: d.lookAt, Dir: dir, Source: source, Version: d.version}
	return b.List(), b
}

// bounds says why the ceiling can't be kept.
func (d *Deployer) bounds() error {
	b := &Builder{Wanted: &d.Wanted, Look: d.lookAt}
	_, err := b.bounded()
	return err
}

func (d *Deployer) resource(name string) Resource {
	all, _ := d.list()
	for _, r := range all {
		if r.Name == name {
			return r
		}
	}
	return Resource{Name: name} // nothing is to be done about it any more
}

func (d *Deployer) lookAt(name string) Object {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.there[name]
}

// look reads all that the list and what it depends on is about. What is read may add to the list.
func (d *Deployer) look(ctx context.Context) {
	d.there, d.seen, d.blind, d.off = map[string]Object{}, map[string]bool{}, map[string]error{}, false
	places := facts(&d.Wanted) // which the list goes by
	for {
		var reading sync.WaitGroup
		n := 0
		for name, place := range places {
			d.mu.Lock() // the others are being read
			known := d.seen[name] || d.blind[name] != nil
			d.mu.Unlock()
			if known {
				continue
			}
			n++
			reading.Go(func() { d.readOne(ctx, name, place) })
		}
		reading.Wait()
		if n == 0 {
			return
		}
		all, _ := d.list()
		for _, r := range all {
			places[r.Name] = r.Place
		}
	}
}

// readOne reads a resource or a fact.
func (d *Deployer) readOne(ctx context.Context, name string, place Place) {
	object, err := d.Read(ctx, name, place)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.there[name], d.seen[name] = object, true
		delete(d.blind, name)
	case Off(err): // so there is nothing behind it, as far as anybody knows
		d.off, d.seen[name], d.there[name] = true, true, nil
	default:
		d.blind[name] = err
	}
}

// refuse says what can't be deployed, before anything is made.
func (d *Deployer) refuse() error {
	if err := d.blind["APIs"]; err != nil {
		return fmt.Errorf("can't read project %s. Is the id right, and are you logged in (gcloud auth login)? Nothing was made: %w", d.Project, err)
	}
	for _, name := range slices.Sorted(maps.Keys(d.blind)) {
		if r := d.resource(name); r.Soft == "" {
			return fmt.Errorf("can't read %s of project %s: %w", name, d.Project, d.blind[name])
		}
	}
	id := d.Settings.Database
	database := d.lookAt("database")
	on := !slices.Contains(d.resource("APIs").MissingAPIs(d.lookAt("APIs")), "firestore.googleapis.com")
	switch {
	case database == nil && !d.CreateDatabase && !on:
		return fmt.Errorf("there is no database, because Firestore is turned off in %[1]s. Add --create-database, or turn it on: gcloud services enable firestore.googleapis.com --project=%[1]s", d.Project)
	case database == nil && !d.CreateDatabase:
		return fmt.Errorf("there is no database %s in %s. Add --create-database, or name another with --set DATABASE=ID", id, d.Project)
	case database != nil && database.Text("locationId") != d.Location:
		return fmt.Errorf("the database %s is in %s: say --location %[2]s", id, database.Text("locationId"))
	case database != nil && d.Edition != "" && !strings.EqualFold(database.Text("databaseEdition"), d.Edition):
		return fmt.Errorf("the database %s is of the %s edition, which never changes. Leave --edition out, or name another with --set DATABASE=ID", id, strings.ToLower(database.Text("databaseEdition")))
	case database != nil && database.Text("type") != "FIRESTORE_NATIVE":
		return fmt.Errorf("the database %s is in Datastore mode. Name another with --set DATABASE=ID", id)
	}
	if known := runtimesOf(d.lookAt("runtimes")); d.Runtime != "" && len(known) > 0 && !slices.Contains(known, d.Runtime) {
		return fmt.Errorf("--runtime %s: want one that %s has, %s", d.Runtime, d.Region, strings.Join(known, " or "))
	}
	return nil
}

// change is a resource that differs from what is wanted.
type change struct {
	Resource
	there    Object
	lines    []string
	commands []Command
}

// changes are the resources that differ, in the list's order.
func (d *Deployer) changes() (all []change) {
	list, _ := d.list()
	for _, r := range list {
		there := d.lookAt(r.Name)
		_, lines := r.Differences(there)
		if commands := r.Commands(there); len(commands) > 0 {
			all = append(all, change{r, there, lines, commands})
		}
	}
	return all
}

// write writes the files that commands read.
func (d *Deployer) write() error {
	_, b := d.list()
	for name, document := range b.Files {
		text, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(d.dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// print prints the commands of a dry run.
func (d *Deployer) print(changes []change) error {
	if d.Files != "" {
		if err := d.write(); err != nil {
			return err
		}
	}
	for _, c := range changes {
		fmt.Fprintf(d.Out, "# %s\n", c.Name)
		for _, command := range c.commands {
			fmt.Fprintln(d.Out, command)
		}
	}
	if d.Files == "" {
		d.say("%s: nothing was run. To paste the commands, say --files DIR as well: it leaves there what they read\n", d.Me)
	} else {
		d.say("%s: nothing was run. Google takes minutes to know what is new: run what fails by that again\n", d.Me)
	}
	return nil
}

func (d *Deployer) took() string {
	s := int(time.Since(d.began).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// bring runs the commands of what differs, side by side where they don't depend on each other. What depends on
// something that was changed is read again before.
func (d *Deployer) bring(ctx context.Context, steps int) map[string]error {
	var all []work
	list, _ := d.list()
	changed := map[string]bool{}
	step := 0
	for _, r := range list {
		do := func(ctx context.Context) error {
			d.mu.Lock()
			again := slices.ContainsFunc(r.Needs, func(need string) bool { return changed[need] })
			d.mu.Unlock()
			if again {
				d.forget()
				d.readOne(ctx, r.Name, r.Place)
			}
			d.mu.Lock()
			err := d.blind[r.Name]
			d.mu.Unlock()
			if err != nil {
				return err
			}
			r := d.resource(r.Name)
			commands := r.Commands(d.lookAt(r.Name))
			if len(commands) == 0 {
				return nil
			}
			began := time.Now()
			if r.Slow != "" {
				d.say("%s: %s: %s\n", d.Me, r.Name, r.Slow)
			}
			if err := d.runAll(ctx, r, commands); err != nil {
				return err
			}
			d.forget()
			d.readOne(ctx, r.Name, r.Place)
			d.mu.Lock()
			defer d.mu.Unlock()
			changed[r.Name] = true
			if step++; step > steps {
				steps = step
			}
			d.say("[%d/%d, %s] %s (%.0f s)\n", step, steps, d.took(), r.Name, time.Since(began).Seconds())
			return nil
		}
		all = append(all, work{name: r.Name, needs: r.Needs, alone: r.Alone, do: do})
	}
	return sideBySide(ctx, all, false)
}

// runAll runs a resource's commands, and those that stand in for them where they are refused.
func (d *Deployer) runAll(ctx context.Context, r Resource, commands []Command) error {
	one := func(command Command) error {
		return d.patiently(ctx, r.Name, func() error { return d.run(ctx, command) })
	}
	for i := range commands {
		err := one(commands[i])
		if err != nil && len(r.Else) > 0 {
			d.say("%s: allUsers was refused, as in organisations that share with their own domains only; so Cloud Run doesn't check who calls\n", d.Me)
			err = nil
			for _, other := range r.Else {
				err = errors.Join(err, one(other))
			}
		}
		if err != nil {
			d.say("%s: %s: %v\n", d.Me, r.Name, err)
			return err
		}
	}
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
