// A counter in Kotlin: documents are made of data classes.
import com.google.cloud.firestore.DocumentReference
import com.google.cloud.firestore.FieldValue
import kotlin.random.Random

data class Counter(var numShards: Int)

data class Shard(var count: Int)

fun createCounter(counter: DocumentReference, numShards: Int) {
    counter.set(Counter(numShards)).get()
    for (i in 0 until numShards) {
        counter.collection("shards").document(i.toString()).set(Shard(0)).get()
    }
}

fun incrementCounter(counter: DocumentReference, numShards: Int) {
    val shard = Random.nextInt(numShards)
    counter.collection("shards").document(shard.toString()).update("count", FieldValue.increment(1)).get()
}

fun getCount(counter: DocumentReference): Long =
    counter.collection("shards").get().get().sumOf { it.getLong("count")!! }
