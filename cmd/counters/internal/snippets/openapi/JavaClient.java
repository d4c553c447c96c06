import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.CountersApi;
import org.openapitools.client.model.Added;
import org.openapitools.client.model.Amount;
import org.openapitools.client.model.By;

/** The client for Java: counts by a gateway, and by one that loses answers. */
public class JavaClient {
  static void check(boolean holds, Object what) {
    if (!holds) throw new IllegalStateException(String.valueOf(what));
  }

  public static void main(String[] args) throws Exception {
    String counter = args[0];
    CountersApi api = new CountersApi(new ApiClient().setBasePath(args[1]));

    String key = UUID.randomUUID().toString();
    By five = new By().by(new Amount(5L));
    Added added = api.increment(counter, key, five);
    check(added.getReplayed() == null && added.getBy().getLong() == 5, added);
    added = api.increment(counter, key, five);
    check(added.getReplayed() && added.getBy().getLong() == 5, added);
    try {
      api.increment(counter, key, new By().by(new Amount(6L)));
      check(false, "another request with the same key was taken");
    } catch (ApiException e) {
      check(e.getCode() == 422, e);
    }

    CountersApi unsteady = new CountersApi(new ApiClient().setBasePath(args[2]));
    key = UUID.randomUUID().toString();
    By fields = new By().by(new Amount(Map.of("likes", 1L, "views", 3L)));
    List<String> failures = new ArrayList<>();
    for (added = null; added == null; ) {
      try {
        added = unsteady.increment(counter, key, fields);
      } catch (ApiException e) {
        if (e.getCause() instanceof IOException) failures.add("lost");
        else if (List.of(429, 500, 502, 503, 504).contains(e.getCode())) failures.add("" + e.getCode());
        else throw e;
        if (failures.size() == 10) throw e;
      }
    }
    check(added.getReplayed(), added);
    // OkHttp sends a request again by itself when a connection breaks that has carried another before.
    check(failures.equals(List.of("503")) || failures.equals(List.of("503", "lost")), failures);

    Map<String, Long> totals = api.read(counter, true, null).getTotals();
    System.out.println(totals.get("likes") + " " + totals.get("views"));
  }
}
