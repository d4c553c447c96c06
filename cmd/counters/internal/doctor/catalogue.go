package doctor

// entry is what all findings of a name have in common.
type entry struct {
	severity Severity
	means    string
}

// catalogue is everything that doctor can find.
var catalogue = map[string]entry{
	"api-disabled": {Error,
		"What needs it fails, and what is behind it can't be read: doctor says nothing of that. Where it is that of Functions, Run, Eventarc, Pub/Sub or Firestore, counting stands still."},

	// Builds.
	"build-role-missing": {Error, "A function is built with this account each time that it is deployed, and no build succeeds: neither the next deployment nor any command below that deploys one."},
	"repository-missing": {Error, "The functions run on, as long as their instances do. A build has nowhere to write its image to, and a new instance may find none."},

	// The functions.
	"function-missing": {Error,
		"Without Increment there is no counting by HTTP, without Rollup no total moves, and without Reconcile a lost event stays lost."},
	"function-not-active": {Error, "The last deployment failed, or the function is on its way out: it may answer nothing, or run the version before."},
	"function-deploying":  {Warning, "A deployment is under way, and what was read may be of either side of it. Run doctor again when it has ended."},
	"runtime-ended":       {Error, "The runtime is decommissioned: the function can't be deployed any more, gets no security updates, and may be switched off."},
	"runtime-deprecated":  {Warning, "The runtime gets no support any more, and can't be deployed once it is decommissioned."},
	"concurrency-one": {Error,
		"An instance takes one request at a time, which is the platform's default. No two increments share a commit and no two events share a roll-up, so that a busy counter needs an instance per request and its document is fought over."},
	"timeout-short":   {Error, "Cloud Run hangs up on a call while the function is at work. An increment is answered 504, though it may be counted; an event comes again, and again; a walk of Reconcile never comes to its end."},
	"concurrency-low": {Warning, "Increments share a commit, and events a roll-up, only within an instance: below 100 requests at a time there is little to share."},

	// Their settings.
	"settings-invalid": {Error, "The function refuses to start with these settings: every call of it fails."},
	"layout-differs":   {Error, "The functions don't look at the same documents: what one writes the others don't see, and totals stand still."},
	"settings-differ":  {Warning, "The functions of a deployment are meant to share their settings: which value holds depends on which function is asked."},

	"billing-dearer": {Warning, "What it has had costs less when it is billed the other way, by list prices and without what is free each month. gcloud's deployments keep what the command sets. Tell the script and terraform as well: --increment-billing or --rollup-billing, and the variables of these names."},

	// The trigger.
	"trigger-missing":    {Error, "Rollup is never called: totals move only when Reconcile runs."},
	"trigger-older":      {Error, "A database that is deleted and made again leaves its triggers behind, and they get no events any more: totals move only when Reconcile runs."},
	"trigger-event-type": {Error, "Rollup needs every write of a shard: creations, updates and deletions. With another type it misses some, or all, until Reconcile runs."},
	"trigger-database":   {Error, "The events are those of another database than the one that Rollup writes to: it refuses them, and totals move only when Reconcile runs."},
	"trigger-document":   {Error, "The events are not those of shards, or not of all: Rollup misses writes, or is called for documents that it can't read."},
	"trigger-operator":   {Error, "Without match-path-pattern the braces are taken literally, and no document has such a name: Rollup is never called."},
	"trigger-retry-off":  {Error, "An event that fails once is gone: its count is missing from the total until Reconcile runs."},
	"trigger-region":     {Error, "Firestore hands its events out in the database's own location only: this trigger gets none."},
	"watch-missing":      {Error, "Rollup hears nothing of the documents of a counted collection: what is counted of them changes only when Reconcile comes to count them again."},
	"watch-unneeded":     {Warning, "Rollup is called for documents that it doesn't count: each call is billed, and logged as an error."},
	"watch-ack-deadline": {Warning, "An event waits until counting again is worth its price. Pub/Sub hangs up before that, and sends it again and again: it counts nothing twice, and each call is billed."},
	"trigger-ack-deadline": {Info,
		"Pub/Sub hangs up before Rollup's own time is over, and sends the event again: it counts nothing twice, and each call is billed. An event usually waits for a second or two."},
	"subscription-dead-letters": {Warning,
		"Rollup refuses events while Firestore does, and they are to come again for a day. With this policy they are laid aside after a few failures, and what they carried is missing from totals until Reconcile runs."},
	"events-waiting": {Error,
		"Totals are behind by what is in them. Rollup's log says why it refuses them, or that it never hears of them; docs/operations.md says what to do. They come again for 24 hours, and Reconcile counts what they carried in any case."},
	"subscription-expires": {Warning,
		"Pub/Sub deletes a subscription through which nothing has gone for so long. After a quiet time no event comes any more, and totals move only when Reconcile runs."},
	"upgrade-unfinished": {Error,
		"The functions are of two deployments: the later one has not come to all of them. Deploy again, with the source and the settings of the later one; until then totals may stand still."},
	"function-region": {Warning, "Every commit crosses from one region to the other and back: increments are slower, and each instance counts fewer."},

	// Who may do what.
	"account-role-missing": {Error, "Calls of this account are refused with 403."},
	"account-role-unclear": {Info, "Doctor sees no grant that it knows to be enough, and does not see everything: a custom role, a group or a folder may make up for it."},
	"auto-create-open":     {Warning, "Anybody on the internet can count, and make counters without bound: each is some 15 documents, and read hourly from then on, at your expense. Let AUTO_CREATE be a number, of new counters a minute and caller."},
	"pubsub-agent-role-missing": {Error,
		"In projects from before April 2021 Pub/Sub's service agent needs this role to call a function with a token. Without it no event is delivered, and totals move only when Reconcile runs."},
	"increment-open":     {Warning, "Anybody on the internet can count, as often as they like, at your expense. Should that be so, let AUTH ask for a token (firebase or appcheck)."},
	"function-reachable": {Warning, "Only Eventarc and Scheduler call it, whose calls are internal traffic. What the internet can reach is one wrong grant away from being called by anybody."},
	"function-open":      {Error, "Anybody on the internet can call it: a forged event becomes part of a total, and a reconcile of all counters costs a read of each."},

	// Cloud Scheduler.
	"scheduler-job-missing": {Error, "Nothing calls Reconcile: an event that is lost, or dropped after 24 hours of failures, is missing from its total for good."},
	"scheduler-job-paused":  {Error, "Reconcile is not called while the job rests: an event that is lost stays missing from its total."},
	"scheduler-job-target":  {Error, "The job calls another address than Reconcile's: an event that is lost stays missing from its total."},
	"scheduler-job-token":   {Error, "Cloud Run refuses a call without a token for its own address: an event that is lost stays missing from its total."},
	"scheduler-job-failed":  {Warning, "Reconcile did not finish the last time. The next run goes on where it stopped; when that fails too, read its log."},
	"database-missing":      {Error, "There is nowhere to count."},
	"database-restored": {Info,
		"Its documents have other times than those that the ledgers know, and what was being counted when the backup was made is in shards alone. One reconcile of all counters puts that right. docs/backup.md says what else to look after."},
	"database-enterprise":    {Warning, "That edition has no automatic indexes and other prices: Reconcile and exact reads scan all shards unless you index them, and what is documented of costs holds for the Standard edition. An edition can't be changed: make another database, and set DATABASE."},
	"ttl-missing":            {Warning, "Every commit leaves a marker that nothing deletes: storage grows, and is billed, for ever."},
	"index-not-exempt":       {Warning, "An index on times that only ever grow caps all increments together at 500 a second; one on the ledger's maps writes entries for every shard with every roll-up."},
	"timestamp-indexed":      {Info, "An index on a time that only ever grows caps all counters together at 500 such writes a second. Leave it if you query by this field and stay below that."},
	"count-not-indexed":      {Error, "Reconcile and exact reads add up the shards with sum(), which works on an index: they fail."},
	"total-differs":          {Error, "Readers see a wrong number. Reconcile corrects it; when it comes back, read the logs of Rollup, and find out who else writes the total."},
	"ledger-missing":         {Warning, "The counter was made by hand or by a public snippet, or a blind trigger has kept its total. The next event or reconcile adopts it, and sets its total to the sum of its shards."},
	"ledger-invalid":         {Error, "Another program has written the ledger, and no event of this counter can be counted until it is made again from the shards. What was imported, reset or rebased is kept where it can still be read; otherwise the total goes down to the sum of the shards."},
	"ledger-format":          {Error, "Another version made the ledger, whose format this one doesn't read: no event of this counter can be counted until it is made again. After an upgrade do that for all: counters reconcile --all --rebuild-ledgers. Where a later version made it, go back to that one."},
	"ledger-others":          {Error, "Another deployment counts for the same document, in shards of another name. Remove one of the two, or give it another COUNTERS. If you have changed SHARDS, the command takes the ledger over, and what the earlier shards hold no longer counts."},
	"counter-noted":          {Error, "Its events are acknowledged, and not counted yet: its total stands still until what is wrong is mended. Rollup tries again every few minutes, and nothing is lost. The command tries at once, and says what is wrong."},
	"shards-above-number":    {Warning, "A resize was interrupted, or clients make shards by themselves and go by a number of their own. They are counted all the same, but Increment doesn't use them: raise the number to theirs. Lowering it would break clients that write to them."},
	"field-not-counted":      {Warning, "FIELDS has the field since the counter was last rolled up, and its document doesn't show it yet. The counter's next event brings it, or the next reconcile."},
	"counter-missing":        {Warning, "What documents come to shows nowhere: there is nothing to increment, so no increment makes the counter. Its ledger has what was counted, and it shows that once it is made."},
	"cleanup-waiting":        {Info, "The app has deleted its document. Made again before CLEANUP_AFTER has passed, it has its counts again; after that, Reconcile removes what is below it."},
	"cleanup-overdue":        {Warning, "The app has deleted its document long ago, and what is below it is still stored and billed: Reconcile is not called, or fails before it comes by."},
	"composite-missing":      {Error, "The field's query is refused without it: the field stays as it is. Once the index is built, the next event or reconcile counts again."},
	"composite-building":     {Info, "Until it is there, the field's query is refused, and the field stays as it is. It takes minutes, or hours in a large collection."},
	"rules-open":             {Error, "Anybody can write shards, totals and ledgers, and all other documents: no count is to be trusted. The command shows the rules. Let nobody write what is the counters', as firestore/firestore.rules does."},
	"rules-others":           {Info, "They may be your app's, which is as well: see that they let everybody read counters who should, and nobody write shards, totals or ledgers. docs/sdk.md has the lines. The command shows them."},
	"metric-missing":         {Warning, "The alerts and the dashboard that look at it are blind, and say nothing."},
	"alert-missing":          {Warning, "Nobody hears of what it would tell. docs/operations.md says what each of them means."},
	"alerts-none":            {Info, "Nobody hears of lag, drift, or a Reconcile that doesn't run, but by asking doctor. As it should be with --no-alerts."},
	"alert-off":              {Warning, "Nobody hears of what it would tell."},
	"billing-off":            {Error, "The functions and their triggers stand still: Google stops what can't be billed."},
	"budget-missing":         {Info, "Nobody is told when the project costs more than it should. With 100 the billing account's administrators are, at half of that in a month and at all of it; it stops nothing. Take your own amount."},
	"sum-not-indexed":        {Error, "The sum of a counted collection's documents works on an index: it can't be taken, and the field stays as it is."},
	"recount-impossible":     {Error, "Firestore compares with no value beyond 1,500 bytes, and a reference to this counter is longer. Its field stays as it is. Give such counters shorter ids."},
	"recount-refused":        {Error, "The documents can't be counted without an index, and the field stays as it is. Once the index is made, reconcile the counter."},
	"recount-not-integer":    {Error, "Some document holds a number with a fraction, or the sum is beyond 64 bits. Fields hold integers: this one stays as it is, for everybody, until the documents that are named do. Mend them, and let rules insist on integers (docs/counted.md): the next event or reconcile counts again."},
	"recount-waiting":        {Info, "An event may be on its way: counting again waits for up to RECOUNT_MAX. Where doctor says so again after a minute or two, with a quiet collection, the event was lost: reconcile the counter, and look at the collection's trigger."},
	"shard-count-double":     {Warning, "It counts as the integer that it is. But an increment of 1.0 made it a double for good, and under firestore.rules clients can't count in this shard until it is an integer again. The command does nothing where the shard was written meanwhile: run doctor again."},
	"deletion-unfinished":    {Warning, "Deleting a large counter takes several commits, and was interrupted between two of them. Increments of it are refused, and what is left of it is billed, until a reconcile finishes the deletion."},
	"count-field-differs":    {Error, "Nothing of the counter is counted: its clients write another field than FIELDS names. With that set to theirs, the next reconcile counts everything."},
	"shard-count-not-number": {Error, "The field is not counted. What was counted of it before stays: where it is a text or null, a reconcile sees to that first, and it counts on from 0; where it is a fraction, from the integer that it is set to."},
}
