import java.io.IOException
import java.util.UUID
import org.openapitools.client.apis.CountersApi
import org.openapitools.client.infrastructure.ClientException
import org.openapitools.client.infrastructure.ServerException
import org.openapitools.client.models.Added
import org.openapitools.client.models.By

/** The client for Kotlin: counts by a gateway, and by one that loses answers. */
fun main(args: Array<String>) {
    val (counter, gateway, losing) = args
    val api = CountersApi(gateway)

    var key = UUID.randomUUID().toString()
    for (replayed in listOf(null, true)) {
        val added = api.increment(counter, key, By(5))
        check(added.replayed == replayed && added.by == 5.0) { added } // JSON's numbers are doubles to Moshi
    }
    try {
        api.increment(counter, key, By(6))
        error("another request with the same key was taken")
    } catch (e: ClientException) {
        check(e.statusCode == 422) { e }
    }

    val unsteady = CountersApi(losing)
    key = UUID.randomUUID().toString()
    val failures = mutableListOf<String>()
    var added: Added? = null
    while (added == null) {
        try {
            added = unsteady.increment(counter, key, By(mapOf("likes" to 1, "views" to 3)))
        } catch (e: IOException) {
            failures.add("lost")
        } catch (e: ClientException) {
            if (e.statusCode != 429) throw e
            failures.add("${e.statusCode}")
        } catch (e: ServerException) {
            failures.add("${e.statusCode}")
        }
        check(failures.size < 10) { failures }
    }
    check(added.replayed == true) { added }
    // OkHttp sends a request again by itself when a connection breaks that has carried another before.
    check(failures == listOf("503") || failures == listOf("503", "lost")) { failures }

    val totals = api.read(counter, true).totals!!
    println("${totals["likes"]} ${totals["views"]}")
}
