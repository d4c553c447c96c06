package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// plan says what is to be done, before it is.
func (d *Deployer) plan(changes []change) {
	w := d.Said
	_, b := d.list()
	edition := string(b.edition())
	is := "is there, of the " + edition + " edition, and stays as it is"
	switch {
	case d.lookAt("database") == nil && d.CreateDatabase:
		is = "is made, of the " + edition + " edition, protected against deletion"
	case !d.seen["database"]:
		is = "has to be there, and stays as it is" // nobody was asked
	}
	beside := fmt.Sprintf("6 service accounts, a repository of images, a trigger, a Scheduler job (%s, UTC), metrics, a dashboard", d.Schedule)
	if !d.NoAlerts {
		beside += ", alerts"
	}
	if len(d.WebApps) > 0 && !d.Settings.Hosted {
		beside += ", security rules where there are none"
	}
	if d.Budget != "" {
		beside += ", a budget of " + d.Budget + " a month"
	}
	callers := slices.Clone(d.Invokers)
	if d.Public || d.NoCheck {
		callers = append(callers, "the whole internet (AUTH="+d.Settings.Auth+")")
	}
	may := strings.Join(callers, ", ")
	if len(d.WebApps) > 0 {
		may += "; web pages: " + d.setting("ALLOWED_ORIGINS") + " (--web-app)"
	}
	fmt.Fprintf(w, "In project %s this makes, or brings up to date:\n\n  counters   %s\n  database   %s in %s, which %s\n", d.Project, d.Settings.Counters, d.Settings.Database, d.Location, is)
	fmt.Fprintf(w, "  functions  %[1]s-increment, %[1]s-rollup, %[1]s-reconcile in %[2]s; instances: at most %[3]d, %[4]d, 1\n", d.Prefix, d.Region, b.Most, b.RollupMost)
	fmt.Fprintf(w, "  beside     %s\n  may call   %s\n", beside, cmp.Or(may, "nobody new: --invoker user:YOU@example.com lets you in, --web-app https://YOUR.APP its users, --public everybody"))
	if of := map[string]string{"zero": "counters that are at 0", "idle": "counters, whatever they hold"}[d.setting("CLEANUP")]; of != "" {
		fmt.Fprintf(w, "  deletes    %s, once nothing was written in them for %s (CLEANUP, CLEANUP_AFTER)\n", of, d.setting("CLEANUP_AFTER"))
	}
	fmt.Fprintln(w)
	estimate, err := d.Estimate(b.Wanted, edition)
	if err != nil {
		estimate = err.Error() + "\nSo there is no estimate.\n"
	}
	fmt.Fprintln(w, estimate)
	d.planChanges(changes)
	for _, note := range d.notes() {
		fmt.Fprintf(w, "%s: %s\n", d.Me, note)
	}
}

// planChanges says what is taken back or changed of what is there, and what is changed that isn't the deployment's
// alone.
func (d *Deployer) planChanges(changes []change) {
	w := d.Said
	var of, made, outside []string
	for _, c := range changes {
		switch {
		case c.Shared != "":
			outside = append(outside, c.Shared)
		case c.there == nil:
			made = append(made, c.Name)
		default:
			of = append(of, c.Name+": "+strings.Join(c.lines, "; "))
		}
	}
	if len(changes) == 0 {
		fmt.Fprintf(w, "All of it is there, and as it should be: no command runs.\n\n")
		return
	}
	if d.lookAt("function "+d.Prefix+"-increment") != nil {
		fmt.Fprintf(w, "Of what is there it changes, or takes back:\n\n  %s\n\n", cmp.Or(strings.Join(of, "\n  "), "nothing"))
		if len(made) > 0 {
			fmt.Fprintf(w, "And it makes:\n\n  %s\n\n", strings.Join(made, "\n  "))
		}
	}
	if len(outside) > 0 {
		fmt.Fprintf(w, "Others in the project may notice:\n\n  %s\n\n", strings.Join(outside, "\n  "))
	}
}

// notes are about what is left alone, and may be to be done by hand.
func (d *Deployer) notes() (lines []string) {
	list, b := d.list()
	isNew := d.lookAt("function "+d.Prefix+"-increment") == nil
	for _, r := range list {
		of, kept := strings.CutPrefix(r.Name, "field ")
		if !kept || !isExempt(d.lookAt(r.Name)) {
			continue
		}
		group, field, _ := strings.Cut(of, ".")
		turnOn := gcloud(b.clear(group, field)...).String()
		if d.Settings.Hosted && isNew && field != "counter_rollup" {
			lines = append(lines, of+" has no index. If a deployment with other settings turned it off, turn it on: "+turnOn)
		} else {
			lines = append(lines, of+" has no index: it was turned off before. To turn it on: "+turnOn)
		}
	}
	if rules := d.lookAt("security rules"); rules != nil && !OursByName(rules.Text("source.files.0.name")) && len(d.WebApps) > 0 {
		lines = append(lines, fmt.Sprintf(`the database has security rules of its own, and they were left alone. For totals that change on the page by themselves, by the
Firebase SDK, put this into them, and see that no wider rule lets clients write there:
    match /%s {
      allow get: if true;
      match /{below=**} { allow read, write: if false; }
    }`, d.Settings.Counters))
	}
	if running := d.extension(); len(running) > 0 && d.setting("EXTENSION") == "true" {
		lines = append(lines, fmt.Sprintf("Firebase's Distributed Counter still runs (%s): nothing is counted here until five minutes after it is uninstalled. What its clients count meanwhile is taken over then", strings.Join(running, ", ")))
	}
	var lost []string
	for _, r := range list {
		channels, _ := d.lookAt(r.Name)["notificationChannels"].([]any)
		for _, channel := range channels {
			// A project has an id and a number, and the channel's is enough.
			isNamed := slices.ContainsFunc(d.Channels, func(c string) bool { return path.Base(c) == path.Base(fmt.Sprint(channel)) })
			if !isNamed && strings.HasPrefix(r.Name, "alert ") && !slices.Contains(lost, fmt.Sprint(channel)) {
				lost = append(lost, fmt.Sprint(channel))
			}
		}
	}
	for _, channel := range lost {
		lines = append(lines, "alerts were sent to "+channel+", which was not named, and are no more. To have them sent there: --notification-channel "+channel)
	}
	return lines
}

// extension are the functions of Firebase's Distributed Counter that keep the same fields.
func (d *Deployer) extension() (names []string) {
	for _, function := range Objects(d.lookAt("functions")["functions"]) {
		name := path.Base(function.Text("name"))
		if is := strings.HasPrefix(name, "ext-") && (strings.HasSuffix(name, "-controllerCore") || strings.HasSuffix(name, "-worker")); is {
			names = append(names, name)
		}
	}
	return names
}

// Members are who may call a function by a policy.
func Members(policy Object) (all []string) {
	for _, binding := range Objects(policy["bindings"]) {
		of, _ := binding["members"].([]any)
		for _, member := range of {
			if binding.Text("role") == invokerRole && binding.Text("condition.expression") == "" {
				all = append(all, fmt.Sprint(member))
			}
		}
	}
	return all
}

// done says what there is now, who may call it, and what could not be made.
func (d *Deployer) done(ctx context.Context, before map[string]Object, failed map[string]error) error {
	name := d.Prefix + "-increment"
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("it was interrupted; run it again to go on: %w", context.Cause(ctx))
	}
	var hard, soft, refused, skipped []string
	list, _ := d.list()
	for _, r := range list {
		switch err := failed[r.Name]; {
		case err == nil:
		case errors.Is(err, errSkipped):
			skipped = append(skipped, r.Name)
		case strings.HasPrefix(r.Name, "caller ") && r.Soft != "", r.Soft == "--no-invoker-check":
			refused = append(refused, r.Soft)
		case r.Soft != "":
			soft = append(soft, r.Soft)
		default:
			hard = append(hard, r.Name)
		}
	}
	if len(hard) > 0 {
		said := []string{"can't make " + strings.Join(hard, ", ") + ": see above. Run this again, and it goes on"}
		if len(skipped) > 0 {
			said = append(said, "not begun, as they need it: "+strings.Join(skipped, ", "))
		}
		return lines(said)
	}
	d.forget()
	for _, fact := range []string{"callers", "service"} {
		d.readOne(ctx, fact, facts(&d.Wanted)[fact])
	}
	open := d.lookAt("service").Text("invokerIamDisabled") == "true"
	wanted := slices.Clone(d.Invokers)
	if d.Public {
		wanted = append(wanted, "allUsers")
	}
	run := func(words ...string) string {
		return gcloud(slices.Concat([]string{"run", "services"}, words[:1], []string{name, "--project=" + d.Project, "--region=" + d.Region}, words[1:])...).String()
	}
	for _, member := range Members(before["callers"]) {
		if !slices.Contains(wanted, member) {
			d.say("%s: %s may call %s too, and was not named. To take that back:\n  %s\n", d.Me, member, name,
				run("remove-iam-policy-binding", "--member="+member, "--role="+invokerRole))
		}
	}
	if before["service"].Text("invokerIamDisabled") == "true" && !d.NoCheck && len(d.WebApps) == 0 {
		d.say("%s: nobody checks who calls %s, and --no-invoker-check was not given. To have Cloud Run check it again:\n  %s\n", d.Me, name, run("update", "--invoker-iam-check"))
	}
	fmt.Fprintf(d.Out, "\nDeployed in %s. Increment is at %s\n%s\n%s\n", d.took(), d.lookAt("function "+name).Text("serviceConfig.uri"), d.who(Members(d.lookAt("callers")), open), d.tryIt())
	fmt.Fprintf(d.Out, "Lag, instances and errors, live:  https://console.cloud.google.com/monitoring/dashboards/builder/%s?project=%s\n", path.Base(d.lookAt("dashboard").Text("name")), d.Project)
	for i := range soft {
		soft[i] = "all is deployed, but " + soft[i]
	}
	if len(refused) > 0 {
		soft = append(soft, "all is deployed, but "+strings.Join(refused, " ")+" was refused. Where the organisation shares with its own domains only, allUsers is: "+
			"give --no-invoker-check instead of --public, or ask its administrators for an exception from iam.allowedPolicyMemberDomains")
	}
	return lines(soft)
}

// who says who may call what, as the functions and Cloud Run have it.
func (d *Deployer) who(may []string, open bool) string {
	if !open && len(may) == 0 {
		return `Nobody may call it yet. Run the same again with one of these:
  --web-app https://app.example       pages of your app, for users who sign in with Firebase
  --invoker user:you@example.com      you, or a service account of your backend
  --public --set AUTH=firebase        anybody on the internet who has a Firebase user's token`
	}
	counts := strings.Join(may, ", ") + ", by Cloud Run's IAM"
	reads := counts
	if open || slices.Contains(may, "allUsers") {
		counts, reads = "anybody on the internet", "anybody on the internet"
	}
	switch d.Settings.Auth {
	case "firebase":
		counts += ", with the ID token of a user who signed in with Firebase"
	case "appcheck":
		counts += ", with an App Check token of your app"
	}
	if d.setting("PUBLIC_READS") != "true" {
		reads = counts
	}
	return fmt.Sprintf("Who may call it:\n  to count:       %s\n  to read totals: %s\n  web pages:      %s", counts, reads, cmp.Or(d.setting("ALLOWED_ORIGINS"), "none: ALLOWED_ORIGINS is empty"))
}

// tryIt is a command that tries it.
func (d *Deployer) tryIt() string {
	if len(d.Settings.ShardFields) == 0 {
		return "There is nothing to increment: documents are counted. Make the counter once, unless your app does:  counters create ID, with the same COUNTERS and FIELDS"
	}
	credentials, where := `--token "$(gcloud auth print-identity-token)"`, ""
	switch d.Settings.Auth { // which Google's own token is not
	case "firebase":
		credentials, where = "--token TOKEN", "TOKEN is the ID token of a user who signed in with Firebase"
	case "appcheck":
		credentials, where = "--header 'X-Firebase-AppCheck: TOKEN'", "TOKEN is an App Check token of your app"
	}
	if d.Settings.Hosted || d.setting("AUTO_CREATE") == "false" || strings.Count(d.Settings.Counters, "{") != 1 { // it can't make a counter by itself
		credentials += " --counter ID"
		if where != "" {
			where += ", and "
		}
		where += "ID is that of a counter that is there"
	}
	if where != "" {
		where = "   (" + where + ")"
	}
	return "Try it:  counters smoke " + d.lookAt("function "+d.Prefix+"-increment").Text("serviceConfig.uri") + " " + credentials + where
}
