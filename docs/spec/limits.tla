------------------------------- MODULE limits -------------------------------
\* A counter with a limit, spread over shards: seats, tickets, a quota.
\*
\* Each shard holds a count and a share. The shares add up to the limit, and no shard counts more than its share. A
\* request looks at the shards, sends one commit, and is answered. Commits arrive late, or never. Answers get lost.
\* README.md says how to run this, and what is left out.
\*
\* Firestore gives each version of a document a new update time, and a commit may be on condition of it. There is no
\* clock here: a commit carries the set of documents that nobody has written since it read them ("fresh"), and its
\* condition holds while all documents that it names ("on") are among them.
EXTENDS Integers, FiniteSets

CONSTANTS
  Scenario, \* which requests there are
  Off       \* the rule that is left out, or "none"

Rule(name) == Off # name

----------------------------------------------------------------------------
\* The scenarios. "try" is how often a request is sent before its caller is told that nothing was counted.

Take(n, try) == [kind |-> "take", n |-> n, try |-> try]
Give(n, try) == [kind |-> "give", n |-> n, try |-> try]
Lower(n) == [kind |-> "lower", n |-> n, try |-> 1]
Raise(n) == [kind |-> "raise", n |-> n, try |-> 1]
Set(n) == [kind |-> "set", n |-> n, try |-> 1] \* the limit is to be n
Hold == [kind |-> "hold", n |-> 1, try |-> 1]
Confirm == [kind |-> "confirm", n |-> 0, try |-> 1]
Expire == [kind |-> "expire", n |-> 1, try |-> 1]

Asked ==
  CASE Scenario = "takes"  -> [two |-> Take(2, 1), one |-> Take(1, 2)]
    [] Scenario = "gives"  -> [one |-> Take(1, 1), other |-> Take(1, 1), back |-> Give(1, 1)]
    [] Scenario = "back"   -> [back |-> Give(1, 2), also |-> Give(1, 1)]
    [] Scenario = "change" -> [one |-> Take(1, 1), less |-> Lower(1), more |-> Raise(1)]
    [] Scenario = "sets"   -> [less |-> Set(1), same |-> Set(2)]
    [] Scenario = "seats"  -> [hold |-> Hold, confirm |-> Confirm, expire |-> Expire]
    [] Scenario = "again"  -> [hold |-> Hold, again |-> Hold, expire |-> Expire]
    [] Scenario = "crowd"  -> [hold |-> Hold, one |-> Take(1, 1), expire |-> Expire]

Requests == DOMAIN Asked
Kind(r) == Asked[r].kind
N(r) == Asked[r].n

Shards == {"0", "1"}
Limit == CASE Scenario \in {"seats", "crowd"} -> 1 [] OTHER -> 2
Counted == IF Scenario \in {"gives", "back"} THEN 1 ELSE 0 \* what is counted at the beginning, by callers long gone
Seat == "seat"                                 \* the one member's document
Counter == "counter"                           \* the counter's document, which changes of the limit write
Docs == Shards \cup {Seat} \cup (IF Scenario = "sets" THEN {Counter} ELSE {})

RECURSIVE SumOver(_, _)
SumOver(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x] + SumOver(f, S \ {x})
Sum(f) == SumOver(f, Shards)
Zero == [s \in Shards |-> 0]
Max(a, b) == IF a > b THEN a ELSE b

----------------------------------------------------------------------------
VARIABLES
  count, share, \* of each shard
  seat,         \* the member's document: "none" (there is no document), "held", "kept" (confirmed), "ended"
  due,          \* the time of the hold is over
  markers,      \* request -> attempts whose marker is there
  net,          \* commits that may still be applied
  req,          \* request -> where it is, and what it knows
  landed,       \* history: how often a commit of the request was applied
  full,         \* history: requests that had no room at some moment since they were made
  ghost,        \* history: a commit was applied that was made before a hold ended, and held it again
  sets          \* history: the limit that was set last; by request, who had ended when it was made, its commit under way;
                \* and whether one of those was applied after that request had set the limit

docs == <<count, share, seat, due>>
vars == <<docs, markers, net, req, landed, full, ghost, sets>>

\* What a request knows: docs that it has read, those that it has read since it was made, and what they held.
Nothing == [docs |-> {}, since |-> {}, fresh |-> {}, count |-> Zero, share |-> Zero, seat |-> "none"]

Init ==
  /\ share \in {f \in [Shards -> 0..Limit] : Sum(f) = Limit /\ f["0"] <= f["1"]} \* the shards are alike
  /\ count \in {f \in [Shards -> 0..Limit] : Sum(f) = Counted /\ \A s \in Shards : f[s] <= share[s]}
  /\ seat = "none" /\ due = FALSE
  /\ markers = [r \in Requests |-> {}]
  /\ net = {}
  /\ req = [r \in Requests |-> [at |-> "idle", try |-> 1, knows |-> Nothing]]
  /\ landed = [r \in Requests |-> 0]
  /\ full = {} /\ ghost = FALSE
  /\ sets = [limit |-> Limit, before |-> [r \in Requests |-> {}], undone |-> FALSE]

\* Each step notes for whom there is no room after it.
Open == {"asked", "sent", "doubt"}
HasRoom(r) == IF Kind(r) = "give" THEN Sum(count) >= N(r) ELSE Sum(share) - Sum(count) >= N(r)
Watch == full' = full \cup {r \in Requests : req'[r].at \in Open /\ ~HasRoom(r)'}

\* Goes on to a phase. What the request knew is forgotten, which keeps the states few: it looks again.
Go(r, at) == req' = [req EXCEPT ![r].at = at, ![r].knows = Nothing]

----------------------------------------------------------------------------
\* A request is made. Its process may know the shards from before, by its last commit there.

Ask(r) ==
  /\ req[r].at = "idle"
  /\ Kind(r) = "expire" => (seat = "held" /\ due)
  /\ req' = [req EXCEPT ![r].at = "asked",
                        ![r].knows.since = IF Rule("a look of its own") THEN {} ELSE req[r].knows.docs]
  /\ sets' = IF Kind(r) # "set" THEN sets
             ELSE [sets EXCEPT !.before[r] = {q \in Requests : req[q].at = "unknown" /\ \E c \in net : c.r = q}]
  /\ UNCHANGED <<docs, markers, net, landed, ghost>> /\ Watch

\* One read of all documents, at one time. The code reads less for the same decisions. It plans by some shards that
\* have room, as any request may that knows them from before; and it refuses by the sums of all counts and shares.
Look(r) ==
  /\ req[r].at = "asked" \/ (req[r].at = "idle" /\ Kind(r) = "take")
  /\ \E D \in IF Rule("one read time") /\ Rule("a look everywhere") THEN {Docs} ELSE {(Docs \ Shards) \cup {s} : s \in Shards} :
       LET k == req[r].knows IN
       req' = [req EXCEPT ![r].knows =
         [docs |-> k.docs \cup D, fresh |-> k.fresh \cup D,
          since |-> IF req[r].at = "asked" THEN k.since \cup D ELSE {},
          count |-> [s \in Shards |-> IF s \in D THEN count[s] ELSE k.count[s]],
          share |-> [s \in Shards |-> IF s \in D THEN share[s] ELSE k.share[s]],
          seat |-> seat]]
  /\ UNCHANGED <<docs, markers, net, landed, ghost, sets>> /\ Watch

----------------------------------------------------------------------------
\* What a request can commit, by what it knows: by how much it changes count and share of each shard.

Room(k) == [s \in Shards |-> IF s \in k.docs THEN k.share[s] - k.count[s] ELSE 0]

Parts(n, most) == {f \in [Shards -> 0..n] : Sum(f) = n /\ \A s \in Shards : f[s] <= most[s]}

TakePlans(k, n) ==
  LET room == Room(k)
      one == {s \in Shards \cap k.docs : room[s] >= n}
  IN IF one # {} THEN {[count |-> [Zero EXCEPT ![s] = n], share |-> Zero] : s \in one}
     ELSE IF ~Rule("spread over shards") THEN {}
     ELSE {[count |-> f, share |-> Zero] : f \in Parts(n, room)} \* one commit takes it from several

SetPlans(k, more) ==
  CASE more > 0 -> {[count |-> Zero, share |-> f] : f \in Parts(more, [s \in Shards |-> more])}
    [] more < 0 -> {[count |-> Zero, share |-> [s \in Shards |-> -f[s]]] : f \in Parts(-more, Room(k))}
    [] OTHER    -> {[count |-> Zero, share |-> Zero]}

Plans(r) ==
  LET k == req[r].knows n == N(r) IN
  CASE Kind(r) \in {"take", "hold"} -> TakePlans(k, n)
    [] Kind(r) \in {"give", "expire"} -> {[count |-> [s \in Shards |-> -f[s]], share |-> Zero] : f \in Parts(n, k.count)}
    [] Kind(r) = "lower" -> {[count |-> Zero, share |-> [s \in Shards |-> -f[s]]] :
                               f \in Parts(n, IF Rule("only free room goes") THEN Room(k) ELSE k.share)}
    [] Kind(r) = "raise" -> {[count |-> Zero, share |-> [Zero EXCEPT ![s] = n]] : s \in Shards}
    [] Kind(r) = "set" -> SetPlans(k, n - Sum(k.share))
    [] Kind(r) = "confirm" -> {[count |-> Zero, share |-> Zero]}

\* What becomes of the member's document. One that is deleted leaves no update time to be a condition.
SeatAfter(r) ==
  CASE Kind(r) = "hold" -> "held" [] Kind(r) = "confirm" -> "kept"
    [] Kind(r) = "expire" -> IF Rule("a tombstone") THEN "ended" ELSE "none"
    [] OTHER -> "same"

\* A seat is held once, and confirmed or given back while it is held.
SeatFits(r) ==
  LET s == req[r].knows.seat IN
  CASE Kind(r) = "hold" -> s \in {"none", "ended"} [] Kind(r) \in {"confirm", "expire"} -> s = "held" [] OTHER -> TRUE

\* The documents that a commit is on condition of. Raising adds to a share blindly.
On(r, p) ==
  {s \in Shards : CASE Kind(r) = "raise" -> FALSE
                    [] Kind(r) = "give" -> p.count[s] # 0 /\ Rule("a condition to give back")
                    [] p.count[s] # 0 -> Rule("a condition where it is counted")
                    [] OTHER -> p.share[s] < 0 /\ Rule("a condition where room is taken away")}
  \cup (IF Kind(r) = "set" /\ Rule("a condition of other changes") THEN {Counter} ELSE {})
  \cup (IF Kind(r) \in {"hold", "confirm", "expire"} /\ Rule("a condition of the seat") THEN {Seat} ELSE {})

\* Commits that can't be applied any more are taken out, which keeps the states few.
Live(commits, marked) ==
  {c \in commits : /\ c.on \subseteq c.fresh
                   /\ Rule("a marker") => c.try \notin marked[c.r]}

Send(r) ==
  LET k == req[r].knows IN
  /\ req[r].at = "asked" /\ k.docs # {} /\ SeatFits(r)
  /\ \E p \in Plans(r) :
       LET none == Seat \in On(r, p) /\ k.seat = "none" \* then the condition is that there is no document
       IN net' = Live(net \cup {[r |-> r, try |-> req[r].try, count |-> p.count, share |-> p.share, seat |-> SeatAfter(r),
                            on |-> IF none THEN On(r, p) \ {Seat} ELSE On(r, p), none |-> none, fresh |-> k.fresh]}, markers)
  /\ Go(r, "sent")
  /\ UNCHANGED <<docs, markers, landed, ghost, sets>> /\ Watch

----------------------------------------------------------------------------
\* Commits arrive: all of one is applied, or nothing.

Written(c) == {s \in Shards : c.count[s] # 0 \/ c.share[s] # 0} \cup (IF c.seat = "same" THEN {} ELSE {Seat})
  \cup (IF Kind(c.r) = "set" THEN {Counter} ELSE {})

Apply(c) ==
  /\ c \in Live(net, markers)
  /\ c.none => seat = "none"
  /\ count' = IF Kind(c.r) = "expire" /\ ~Rule("given back in the commit that ends it") THEN count
              ELSE [s \in Shards |-> count[s] + c.count[s]]
  /\ share' = [s \in Shards |-> share[s] + c.share[s]]
  /\ seat' = IF c.seat = "same" THEN seat ELSE c.seat
  /\ due' = (due /\ seat' = "held" /\ Kind(c.r) # "hold")
  /\ ghost' = (ghost \/ (Kind(c.r) = "hold" /\ Seat \notin c.fresh))
  /\ sets' = IF Kind(c.r) # "set" THEN sets
             ELSE [sets EXCEPT !.limit = N(c.r), !.undone = @ \/ \E q \in Requests : req[q].at = "ok" /\ c.r \in sets.before[q]]
  /\ IF Kind(c.r) = "expire" THEN UNCHANGED <<markers, landed>> \* its condition is enough, and it may be made again
     ELSE /\ markers' = [markers EXCEPT ![c.r] = @ \cup {c.try}]
          /\ landed' = [landed EXCEPT ![c.r] = @ + 1]
  /\ net' = Live({[d EXCEPT !.fresh = @ \ Written(c)] : d \in net} \ (IF Kind(c.r) = "expire" THEN {c} ELSE {}), markers')
  /\ req' = [r \in Requests |-> [req[r] EXCEPT !.knows.fresh = @ \ Written(c)]]
  /\ Watch

\* The answer comes, or it doesn't, whatever became of the commit.
Answer(r) ==
  /\ req[r].at = "sent"
  /\ Go(r, CASE Kind(r) = "expire" -> "idle"
             [] req[r].try \in markers[r] -> "ok"
             [] OTHER -> "asked") \* its condition failed: it looks again
  /\ req[r].try \in markers[r] \/ ~\E c \in net : c.r = r /\ c.try = req[r].try
  /\ UNCHANGED <<docs, markers, net, landed, ghost, sets>> /\ Watch

Doubt(r) ==
  /\ req[r].at = "sent"
  /\ Go(r, CASE Kind(r) = "expire" -> "idle" [] Kind(r) = "set" -> "unknown" [] OTHER -> "doubt") \* unknown: it may be applied yet
  /\ UNCHANGED <<docs, markers, net, landed, ghost, sets>> /\ Watch

\* The marker is made alone. If it is there, the commit was applied. If not, the commit never will be, and another is sent.
Settle(r) ==
  /\ req[r].at = "doubt"
  /\ IF req[r].try \in markers[r] /\ Rule("a marker") THEN Go(r, "ok") /\ UNCHANGED <<markers, net>>
     ELSE /\ markers' = IF ~Rule("settled before it is sent again") THEN markers
                        ELSE [markers EXCEPT ![r] = @ \cup {req[r].try}]
          /\ net' = Live(net, markers')
          /\ IF req[r].try = Asked[r].try THEN Go(r, "failed")
             ELSE req' = [req EXCEPT ![r].at = "asked", ![r].try = @ + 1]
  /\ UNCHANGED <<docs, landed, ghost, sets>> /\ Watch

\* The process dies, and nobody settles what it had sent. The member asks again, as another request.
Die(r) ==
  /\ Kind(r) = "hold" /\ req[r].at \in {"sent", "doubt"}
  /\ Go(r, "dead")
  /\ UNCHANGED <<docs, markers, net, landed, ghost, sets>> /\ Watch

----------------------------------------------------------------------------
\* Without a plan, a request that has looked everywhere since it was made is refused.
Refuse(r) ==
  LET k == req[r].knows IN
  /\ req[r].at = "asked" /\ Kind(r) # "expire" /\ SeatFits(r)
  /\ IF Rule("a look everywhere") THEN Docs \subseteq k.since ELSE k.since # {}
  /\ Plans(r) = {}
  /\ Go(r, "refused")
  /\ UNCHANGED <<docs, markers, net, landed, ghost, sets>> /\ Watch

\* The seat is the member's already, was confirmed already, or is gone. Where a change isn't always written, the limit is so
\* already.
Told(r) ==
  /\ req[r].at = "asked" /\ Seat \in req[r].knows.since
  /\ ~SeatFits(r) \/ (Kind(r) = "set" /\ Sum(req[r].knows.share) = N(r) /\ ~Rule("a change is always written"))
  /\ Go(r, CASE Kind(r) = "set" -> "ok"
            [] Kind(r) = "expire" -> "idle" [] Kind(r) = "confirm" /\ req[r].knows.seat = "kept" -> "kept already"
             [] Kind(r) = "confirm" -> "gone" [] OTHER -> "held already")
  /\ UNCHANGED <<docs, markers, net, landed, ghost, sets>> /\ Watch

Due ==
  /\ seat = "held" /\ ~due /\ due' = TRUE
  /\ UNCHANGED <<count, share, seat, markers, net, req, landed, ghost, sets>> /\ Watch

----------------------------------------------------------------------------
Next ==
  \/ \E r \in Requests : \/ Ask(r) \/ Look(r) \/ Send(r) \/ Answer(r) \/ Doubt(r)
                         \/ Settle(r) \/ Die(r) \/ Refuse(r) \/ Told(r)
  \/ \E c \in net : Apply(c)
  \/ Due

\* Somebody looks for holds whose time is over, and what was sent arrives. Nothing else has to happen for a hold to end.
Reconciled == Rule("somebody looks for holds")
Fair == \A r \in {q \in Requests : Kind(q) = "expire" /\ Reconciled} :
          /\ WF_vars(Ask(r) \/ Look(r) \/ Send(r) \/ Answer(r) \/ Told(r))
          /\ WF_vars(\E c \in net : c.r = r /\ Apply(c))

Spec == Init /\ [][Next]_vars /\ Fair

----------------------------------------------------------------------------
\* Never more than there is.
NoOversell == \A s \in Shards : 0 <= count[s] /\ count[s] <= share[s]

\* Nothing is refused while there is some: between request and answer was a moment without room.
NoWrongRefusal == \A r \in Requests : req[r].at = "refused" => r \in full

\* What was acknowledged is counted once, and what was refused isn't, whatever arrives late.
CountedOnce == \A r \in Requests :
  /\ landed[r] <= 1
  /\ req[r].at = "ok" => landed[r] = 1
  /\ req[r].at \in {"refused", "failed", "gone", "held already"} => landed[r] = 0

\* The shards hold what was counted, and the limit that was set.
Exact ==
  LET all(kind) == SumOver([r \in Requests |-> landed[r] * N(r)], {r \in Requests : Kind(r) = kind})
  IN /\ Sum(count) = Counted + all("take") - all("give") + IF seat \in {"held", "kept"} THEN 1 ELSE 0
     /\ Sum(share) = sets.limit + all("raise") - all("lower")

\* What was set stands until somebody sets another limit: nothing that was sent before comes late.
Stands == ~sets.undone

\* A confirmed seat stays.
Kept == \A r \in Requests : (Kind(r) = "confirm" /\ req[r].at \in {"ok", "kept already"}) => seat = "kept"

\* No seat that was given back is held again by what was sent before.
NoGhost == ~ghost

\* A hold ends, by confirmation or because its time is over.
HoldsEnd == (seat = "held" /\ due) ~> ~(seat = "held" /\ due)
=============================================================================
