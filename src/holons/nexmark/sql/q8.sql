-- q8: people who opened an auction in the window in which they registered.
SELECT DISTINCT tumbling(people.date_time, $window_us) AS window_start, people.id, people.name
FROM people
JOIN auctions ON auctions.seller = people.id
WHERE tumbling(people.date_time, $window_us) = tumbling(auctions.date_time, $window_us)
