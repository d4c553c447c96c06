// Package deployment says once what a deployment is made of, and makes, changes and removes it with gcloud.
//
//	deploy.go   a deployment: read what is there, plan, run the commands of what differs
//	destroy.go  its removal: what the list names, and what its prefix does
//	plan.go     what is said before and afterwards
//	graph.go    work side by side, as far as it doesn't depend on other work
//	list.go     resources: what each needs, what is wanted of it, its commands; APIs, accounts and their roles
//	functions.go  the functions, who calls them and what calls them
//	database.go   the database, TTL policy and indexes
//	monitoring.go metrics, alerts, a dashboard, a budget
//	rules.go    security rules, for which gcloud has no command
//	wanted.go   what a deployer may ask for, and what is refused
//	ceiling.go  what a day may cost, and what that leaves to each function
//	resource.go a resource, where it is read, and how it differs from what is wanted
//	cloud.go    reads of Google's APIs, and gcloud
//	permissions.go what its commands take
//	command.go  a command: run, or printed to be pasted
//
// [List] is pure: it is made of what is [Wanted] and of what was read. So a dry run, a deployment, its removal and
// the doctor go by the same list.
package deployment
