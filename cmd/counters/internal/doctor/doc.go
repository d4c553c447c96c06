// Package doctor reads a deployment of counters, and says what is wrong with it and how to mend
// that.
//
// [Reader] reads through the platform's own APIs into a [Deployment], which is plain data: what an
// account may not read is listed there, and the rest is read. [Check] judges a Deployment, and
// knows no client. What can be found is named in one place, the catalogue, with its severity and
// what it means.
//
// What is a plain difference from the list of resources that deploy goes by is found by that list, and mended by its
// commands: differences.go has the kinds. The rest is what the list has not: how a function does, what waits, what
// documents hold, and what is right in other ways than deploy's, such as a wider role.
//
//	finding.go      what is found, in the order in which it is looked for, and how it is said
//	catalogue.go    what each finding means
//	deployment.go   what was read
//	reader.go       reads it: read_functions.go, read_project.go and read_counters.go its parts
//	unread.go       says what can't be read, and why
//	command.go      the commands that mend it
//	access.go, functions.go, settings.go, trigger.go, project.go, billing.go, scheduler.go, differences.go, rules.go,
//	monitoring.go, counters.go: what is looked for
package doctor
