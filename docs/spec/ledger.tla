------------------------------- MODULE ledger -------------------------------
\* What a counter's total is made of: shards, their events, the ledger, the document that shows the total.
\*
\* The rules are those of internal/ledger (Merge, Correct, Apply), and of the flush and the reconcile that rollup makes
\* of them. Events come twice, late, out of order, or never. README.md says how to run this, and what is left out.
EXTENDS Integers, FiniteSets

CONSTANTS
  Scenario, \* what happens, and how often
  Off       \* the rule that is left out, or "none"

Rule(name) == Off # name

----------------------------------------------------------------------------
\* How often each thing happens at most. "made" says whether there is a ledger at the beginning.

Never == [writes |-> 0, deletes |-> 0, lost |-> 0, twice |-> 0, reads |-> 0, ends |-> 0, changes |-> 0, app |-> 0]
Bounds ==
  CASE Scenario = "events"    -> [Never EXCEPT !.writes = 3, !.deletes = 1, !.twice = 1]
    [] Scenario = "instances" -> [Never EXCEPT !.writes = 2, !.twice = 1]
    [] Scenario = "snapshots" -> [Never EXCEPT !.writes = 2, !.deletes = 1, !.lost = 1, !.reads = 2]
    [] Scenario = "readers"   -> [Never EXCEPT !.writes = 2, !.deletes = 1, !.reads = 2]
    [] Scenario = "lives"     -> [Never EXCEPT !.writes = 2, !.reads = 2, !.ends = 1]
    [] Scenario = "answers"   -> [Never EXCEPT !.changes = 2, !.reads = 1, !.ends = 1]
    [] Scenario = "document"  -> [Never EXCEPT !.writes = 2, !.app = 2, !.reads = 1]
Instances == IF Scenario \in {"instances", "answers"} THEN {"a", "b"} ELSE {"a"}
Readers == IF Scenario \in {"readers", "lives"} THEN {"r", "q"} ELSE {"r"}
Made == Scenario # "lives"

Shards == {"0", "1"}

\* The ledger's entry of a shard, and that of a shard that it doesn't know. A deleted shard's holds 0.
Unknown == [at |-> -1, n |-> 0]

VARIABLES
  now,    \* Firestore's clock
  left,   \* how often each thing may still happen
  shard,  \* the shards' documents: what they hold, and their update times
  things, \* how many documents a query counts
  events, \* those that somebody will still bring
  missed, \* lost events
  ledger, \* the ledger, "there" or not
  doc,    \* the counter's document: its total
  off,    \* history: something else wrote the total since a flush or a reconcile has looked at it
  flush,  \* instance -> the flush that it has begun
  snap    \* reconcile or adoption -> what it has read of the shards

vars == <<now, left, shard, things, events, missed, ledger, doc, off, flush, snap>>

NoDocument == [there |-> FALSE, n |-> 0, at |-> 0]
NoLedger == [there |-> FALSE, states |-> [s \in Shards |-> Unknown], answer |-> Unknown,
             floor |-> 0, created |-> 0, gone |-> FALSE]
NoFlush == [on |-> FALSE, events |-> {}, answer |-> Unknown, was |-> NoLedger, fresh |-> FALSE]
NoSnap == [on |-> FALSE, at |-> 0, states |-> [s \in Shards |-> NoDocument], missed |-> {}]

RECURSIVE SumOver(_, _)
SumOver(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x].n + SumOver(f, S \ {x})

Total(l) == SumOver(l.states, Shards)

Init ==
  /\ now = 1
  /\ left = Bounds
  /\ shard = [s \in Shards |-> NoDocument]
  /\ things = 0
  /\ events = {} /\ missed = {}
  /\ ledger = IF Made THEN [NoLedger EXCEPT !.there = TRUE, !.floor = 1, !.created = 1] ELSE NoLedger
  /\ doc = [there |-> Made, total |-> 0] /\ off = FALSE
  /\ flush = [i \in Instances |-> NoFlush]
  /\ snap = [r \in Readers |-> NoSnap]

Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]

----------------------------------------------------------------------------
\* Shards are written and deleted, and each time an event says what they hold as of when.

Write(s) ==
  /\ Spend("writes")
  /\ now' = now + 1
  /\ shard' = [shard EXCEPT ![s] = [there |-> TRUE, n |-> @.n + 1, at |-> now']]
  /\ events' = events \cup {[of |-> s, n |-> shard'[s].n, at |-> now', gone |-> FALSE]}
  /\ UNCHANGED <<things, missed, ledger, doc, off, flush, snap>>

\* A deletion's event has the document's last update time, or that of the deletion itself: the platform promises neither. Its
\* state is as of a microsecond later.
Deletion(s, at) == [of |-> s, n |-> 0, at |-> at + (IF Rule("a microsecond later") THEN 1 ELSE 0), gone |-> TRUE]

Delete(s) ==
  /\ Spend("deletes") /\ shard[s].there
  /\ now' = now + 1
  /\ shard' = [shard EXCEPT ![s] = NoDocument]
  /\ \E at \in {shard[s].at, now'} : events' = events \cup {Deletion(s, at)}
  /\ UNCHANGED <<things, missed, ledger, doc, off, flush, snap>>

\* A document comes or goes in a collection that a query counts. Its event carries no number.
Change(d) ==
  /\ Spend("changes") /\ things + d >= 0
  /\ now' = now + 1
  /\ things' = things + d
  /\ events' = events \cup {[of |-> "things", n |-> 0, at |-> now', gone |-> FALSE]}
  /\ UNCHANGED <<shard, missed, ledger, doc, off, flush, snap>>

Lose(e) ==
  /\ Spend("lost") /\ e \in events
  /\ events' = events \ {e} /\ missed' = missed \cup {e}
  /\ UNCHANGED <<now, shard, things, ledger, doc, off, flush, snap>>

----------------------------------------------------------------------------
\* Merge: the newer replaces the older, whole.

\* Of two states with one time, a document beats a deletion.
After(e, known) ==
  \/ e.at > known.at
  \/ (e.at = known.at /\ known.n = 0 /\ e.n # 0 /\ Rule("a document beats a deletion"))
Newer(e, known) == After(e, known) \/ ~Rule("the newer replaces the older")

\* A state that is not newer than the floor is of an earlier life, or of a shard that a snapshot has, or has found gone. A
\* deletion is always entered: an older snapshot, in which the shard still is, may be on its way.
Counts(e, l) ==
  \/ e.at > l.floor
  \/ ~Rule("the floor")
  \/ (e.gone /\ Rule("a deletion is entered whatever its time"))

MergeState(l, e) ==
  IF Counts(e, l) /\ Newer(e, l.states[e.of]) THEN [l EXCEPT !.states[e.of] = [at |-> e.at, n |-> e.n]] ELSE l

RECURSIVE MergeAll(_, _)
MergeAll(l, states) ==
  IF states = {} THEN l
  ELSE LET e == CHOOSE e \in states : \A f \in states : f.at > e.at \/ (f.at = e.at /\ (e.gone \/ ~f.gone))
       IN MergeAll(MergeState(l, e), states \ {e})

\* An answer from before the ledger was made is too early: the ledger before may have had a newer one.
Early(a, l) == l.answer = Unknown /\ a.at < l.created /\ Rule("an answer since the ledger was made")

MergeAnswer(l, a) ==
  IF a = Unknown \/ Early(a, l) \/ (a.at <= l.answer.at /\ Rule("the newer answer replaces the older")) THEN l
  ELSE [l EXCEPT !.answer = a]

----------------------------------------------------------------------------
\* A flush: an instance takes events, asks the query where one is about its documents, merges, and commits ledger and total
\* together, on condition that the ledger is as it was read.

OfShards(es) == {e \in es : e.of # "things"}

Begin(i) ==
  /\ ~flush[i].on /\ ledger.there
  /\ \E es \in SUBSET events :
       /\ es # {} /\ Cardinality(es) <= 2
       /\ flush' = [flush EXCEPT ![i] =
            [on |-> TRUE, events |-> es, was |-> ledger, fresh |-> TRUE,
             answer |-> IF es = OfShards(es) THEN Unknown ELSE [at |-> now, n |-> things]]]
  /\ UNCHANGED <<now, left, shard, things, events, missed, ledger, doc, off, snap>>

\* The ledger is written: what flushes have read isn't it any more.
Stale == [i \in Instances |-> IF ~flush[i].on THEN NoFlush
            ELSE [flush[i] EXCEPT !.fresh = FALSE, !.was = IF Rule("the ledger's condition") THEN NoLedger ELSE @]]

\* Its condition failed: it reads the ledger again, and goes on with what it has.
Again(i) ==
  /\ flush[i].on /\ ~flush[i].fresh
  /\ flush' = [flush EXCEPT ![i] = IF ledger.there THEN [@ EXCEPT !.was = ledger, !.fresh = TRUE] ELSE NoFlush]
  /\ UNCHANGED <<now, left, shard, things, events, missed, ledger, doc, off, snap>>

Merged(i) == MergeAnswer(MergeAll(flush[i].was, OfShards(flush[i].events)), flush[i].answer)

\* Whose events are acknowledged. Only a query that began after an event came covers it.
Covered(i) ==
  LET f == flush[i]
      early == f.answer # Unknown /\ Early(f.answer, f.was)
      also == IF f.answer # Unknown /\ ~Rule("a query that began later") THEN events \ OfShards(events) ELSE {}
  IN IF early THEN OfShards(f.events) ELSE f.events \cup also

\* The commit is applied. Its answer tells what the total is now. Where that isn't the ledger's, another commit sets it,
\* unless the process dies before that. Where the document is missing, the ledger is written alone, and notes it.
Commit(i) ==
  LET l == Merged(i)
      grown == doc.total + Total(l) - Total(flush[i].was)
      shown == IF ledger.gone THEN Total(l) ELSE grown \* it was missing, so its number says nothing
  IN /\ flush[i].on /\ ledger.there
     /\ flush[i].fresh \/ ~Rule("the ledger's condition")
     /\ ledger' = [l EXCEPT !.gone = ~doc.there]
     /\ \E died \in BOOLEAN :
          \/ ~doc.there /\ ~died /\ UNCHANGED <<doc, off>>
          \/ doc.there /\ died /\ shown # Total(l) /\ doc' = [doc EXCEPT !.total = shown] /\ off' = TRUE
          \/ doc.there /\ died /\ ~Rule("ledger and total in one commit") /\ UNCHANGED <<doc, off>>
          \/ doc.there /\ ~died /\ off' = FALSE
             /\ doc' = [doc EXCEPT !.total = IF Rule("the total is compared") THEN Total(l) ELSE shown]
     \* the answer is lost, or it acknowledges the events; some of them come again still
     /\ \/ events' = events \ Covered(i) /\ left' = left
        \/ Spend("twice") /\ events' = events
     /\ flush' = [Stale EXCEPT ![i] = NoFlush]
     /\ UNCHANGED <<now, shard, things, missed, snap>>

----------------------------------------------------------------------------
\* All shards are read at one time, for a reconcile or an adoption.

Read(r) ==
  /\ ~snap[r].on /\ Spend("reads")
  /\ snap' = [snap EXCEPT ![r] = [on |-> TRUE, at |-> now, states |-> shard, missed |-> missed]]
  /\ UNCHANGED <<now, shard, things, events, missed, ledger, doc, off, flush>>

\* What a snapshot changes in a ledger. Beside it, newer entries stay. Entries of shards that are gone go.
Correct(l, shot) ==
  [l EXCEPT
     !.floor = IF Rule("a snapshot raises the floor") THEN shot.at ELSE @,
     !.states = [s \in Shards |->
        LET known == l.states[s] is == shot.states[s] IN
        IF is.there THEN
          IF known # Unknown /\ ~After(is, known) /\ Rule("newer entries stay")
          THEN known ELSE [at |-> is.at, n |-> is.n]
        ELSE IF known.at > shot.at \/ ~Rule("entries of gone shards go") THEN known ELSE Unknown]]

\* A snapshot that isn't younger than the floor changes nothing: the shards are read again.
Younger(shot) == shot.at > ledger.floor \/ ~Rule("a snapshot is younger than the floor")

Reconcile(r) ==
  /\ snap[r].on /\ ledger.there
  /\ snap' = [snap EXCEPT ![r] = NoSnap]
  /\ IF ~Younger(snap[r]) THEN UNCHANGED <<ledger, doc, off, missed, flush>>
     ELSE /\ ledger' = [Correct(ledger, snap[r]) EXCEPT !.gone = ~doc.there]
          /\ doc' = IF doc.there THEN [doc EXCEPT !.total = Total(ledger')] ELSE doc
          /\ off' = (off /\ ~doc.there)
          /\ missed' = missed \ snap[r].missed
          /\ flush' = Stale
  /\ UNCHANGED <<now, left, shard, things, events>>

\* A ledger is made of the shards as they are, in a transaction, once there is an event that is no deletion.
Adopt(r) ==
  /\ snap[r].on /\ ~ledger.there
  /\ \E e \in events : ~e.gone
  /\ snap[r].at = now \/ ~Rule("adoption is a transaction")
  /\ now' = now + 1
  /\ ledger' = [NoLedger EXCEPT !.there = TRUE, !.floor = now', !.created = now',
                  !.states = [s \in Shards |-> LET is == snap[r].states[s] IN
                                IF is.there THEN [at |-> is.at, n |-> is.n] ELSE Unknown]]
  /\ doc' = [there |-> TRUE, total |-> Total(ledger')] /\ off' = FALSE
  /\ missed' = missed \ snap[r].missed
  /\ snap' = [snap EXCEPT ![r] = NoSnap]
  /\ UNCHANGED <<left, shard, things, events, flush>>

\* Deletions alone make no ledger. They are acknowledged.
Forget ==
  /\ ~ledger.there /\ \E e \in events : e.gone /\ events' = events \ {e}
  /\ UNCHANGED <<now, left, shard, things, missed, ledger, doc, off, flush, snap>>

----------------------------------------------------------------------------
\* The counter is deleted, and its path may count again. What its query counts stays.
End ==
  /\ Spend("ends") /\ ledger.there
  /\ now' = now + 1
  /\ shard' = [s \in Shards |-> NoDocument]
  /\ events' = events \cup {Deletion(s, shard[s].at) : s \in {s \in Shards : shard[s].there}}
  /\ ledger' = NoLedger /\ doc' = [there |-> FALSE, total |-> 0] /\ off' = FALSE
  /\ flush' = Stale
  /\ UNCHANGED <<things, missed, snap>>

\* The app deletes the document, or writes any number into it.
App ==
  /\ Spend("app")
  /\ \/ doc.there /\ doc' = [there |-> FALSE, total |-> 0] /\ off' = FALSE
     \/ doc' = [there |-> TRUE, total |-> 7] /\ off' = TRUE
  /\ UNCHANGED <<now, shard, things, events, missed, ledger, flush, snap>>

Next ==
  \/ \E s \in Shards : Write(s) \/ Delete(s)
  \/ \E d \in {-1, 1} : Change(d)
  \/ \E e \in events : Lose(e)
  \/ \E i \in Instances : Begin(i) \/ Again(i) \/ Commit(i)
  \/ \E r \in Readers : Read(r) \/ Reconcile(r) \/ Adopt(r)
  \/ Forget
  \/ End \/ App

Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
Quiet == events = {} /\ ledger.there /\ \A i \in Instances : ~flush[i].on

\* A lost event is covered by a newer state of its shard. Otherwise it takes a reconcile.
MadeUp(e) == e.of # "things" /\ ~After(e, ledger.states[e.of])

\* Once all events are acknowledged, the ledger holds what the shards hold.
Right == (Quiet /\ \A e \in missed : MadeUp(e)) => Total(ledger) = SumOver(shard, Shards)

\* The document shows what the ledger has, since whoever wrote it last.
Shown == (ledger.there /\ doc.there /\ ~off) => doc.total = Total(ledger)

\* The newest answer is what the query would say now.
Answered == (Quiet /\ ledger.answer # Unknown) => ledger.answer.n = things
=============================================================================
