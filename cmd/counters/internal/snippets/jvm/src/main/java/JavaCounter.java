import com.google.cloud.firestore.DocumentReference;
import com.google.cloud.firestore.FieldValue;
import com.google.cloud.firestore.QueryDocumentSnapshot;
import java.util.concurrent.ThreadLocalRandom;

/** A counter in Java: documents are made of objects, whose fields are named as their getters are. */
final class JavaCounter {
  public static final class Counter {
    private final int numShards;

    Counter(int numShards) {
      this.numShards = numShards;
    }

    public int getNumShards() {
      return numShards;
    }
  }

  public static final class Shard {
    private final int count;

    Shard(int count) {
      this.count = count;
    }

    public int getCount() {
      return count;
    }
  }

  static void createCounter(DocumentReference counter, int numShards) throws Exception {
    counter.set(new Counter(numShards)).get();
    for (int i = 0; i < numShards; i++) {
      counter.collection("shards").document(String.valueOf(i)).set(new Shard(0)).get();
    }
  }

  static void incrementCounter(DocumentReference counter, int numShards) throws Exception {
    int shard = ThreadLocalRandom.current().nextInt(numShards);
    counter.collection("shards").document(String.valueOf(shard)).update("count", FieldValue.increment(1)).get();
  }

  static long getCount(DocumentReference counter) throws Exception {
    long count = 0;
    for (QueryDocumentSnapshot shard : counter.collection("shards").get().get()) {
      count += shard.getLong("count");
    }
    return count;
  }

  private JavaCounter() {}
}
