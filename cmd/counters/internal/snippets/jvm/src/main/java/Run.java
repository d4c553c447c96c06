import com.google.cloud.firestore.DocumentReference;
import com.google.cloud.firestore.Firestore;
import com.google.cloud.firestore.FirestoreOptions;

/** Runs a snippet: Run java|kotlin COUNTER [create N] [increment N] [sum], in the order given. sum is printed. */
final class Run {
  private static final int NUM_SHARDS = 5;

  public static void main(String[] args) throws Exception {
    boolean kotlin = args[0].equals("kotlin");
    try (Firestore db = FirestoreOptions.getDefaultInstance().getService()) {
      DocumentReference counter = db.collection("counters").document(args[1]);
      for (int i = 2; i < args.length; i++) {
        switch (args[i]) {
          case "create" -> {
            int shards = Integer.parseInt(args[++i]);
            if (kotlin) KotlinCounterKt.createCounter(counter, shards);
            else JavaCounter.createCounter(counter, shards);
          }
          case "increment" -> {
            for (int n = Integer.parseInt(args[++i]); n > 0; n--) {
              if (kotlin) KotlinCounterKt.incrementCounter(counter, NUM_SHARDS);
              else JavaCounter.incrementCounter(counter, NUM_SHARDS);
            }
          }
          case "sum" -> System.out.println(kotlin ? KotlinCounterKt.getCount(counter) : JavaCounter.getCount(counter));
          default -> throw new IllegalArgumentException("commands are create N, increment N and sum");
        }
      }
    }
  }

  private Run() {}
}
