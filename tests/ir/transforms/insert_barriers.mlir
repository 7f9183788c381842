// RUN: vk-opt --insert-barriers %s | filecheck %s
// Where elements move between threads, accesses at the same index need a barrier too.

// What was stored is loaded: a barrier. What was only loaded is loaded again: none.
// CHECK-LABEL: vk.mapped @same_index
vk.mapped @same_index(%x: !vk.tensor<[8], f32>, %out: !vk.tensor<[8], f32>) facts {sizes = {}, multiples = {}, strides = {}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "a" over (%p = %one) {
    %s = vk.scratch "s" : !vk.scratch<[8], f32>
    // CHECK:      vk.load %x
    // CHECK-NEXT: vk.store
    // CHECK-NEXT: vk.barrier
    // CHECK-NEXT: vk.load %s
    // CHECK-NEXT: vk.load %s
    // CHECK-NEXT: vk.store {{.*}} in %out
    %row = vk.load %x[i] : !vk.tensor<[8], f32> -> tensor<8xf32, #vk.axes<i>>
    vk.store %row in %s[i] : !vk.scratch<[8], f32> <- tensor<8xf32, #vk.axes<i>>
    %again = vk.load %s[i] : !vk.scratch<[8], f32> -> tensor<8xf32, #vk.axes<i>>
    %more = vk.load %s[i] : !vk.scratch<[8], f32> -> tensor<8xf32, #vk.axes<i>>
    vk.store %more in %out[i] : !vk.tensor<[8], f32> <- tensor<8xf32, #vk.axes<i>>
  }
}

// Tensors of one type may be one tensor unless the call says that they are not: several threads may hold the element.
// CHECK-LABEL: vk.mapped @in_place
vk.mapped @in_place(%x: !vk.tensor<[8], f32>, %out: !vk.tensor<[8], f32>) {
  %one = arith.constant 1 : i64
  vk.launch "a" over (%p = %one) {
    // CHECK:      vk.load %x
    // CHECK-NEXT: vk.barrier
    // CHECK-NEXT: vk.store
    %row = vk.load %x[i] : !vk.tensor<[8], f32> -> tensor<8xf32, #vk.axes<i>>
    vk.store %row in %out[i] : !vk.tensor<[8], f32> <- tensor<8xf32, #vk.axes<i>>
  }
}

// The next iteration writes what this one reads.
// CHECK-LABEL: vk.mapped @loop
vk.mapped @loop(%out: !vk.tensor<[8], f32>) facts {sizes = {}, multiples = {}, strides = {}, distinct} {
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  vk.launch "a" over (%p = %one) {
    %s = vk.scratch "s" : !vk.scratch<[8], f32>
    %value = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
    // CHECK:      scf.for
    // CHECK-NEXT:   vk.barrier
    // CHECK-NEXT:   vk.store
    // CHECK-NEXT:   vk.barrier
    // CHECK-NEXT:   vk.load
    // CHECK-NEXT: }
    scf.for %k = %zero to %one step %one : i64 {
      vk.store %value in %s[i] : !vk.scratch<[8], f32> <- tensor<8xf32, #vk.axes<i>>
      %row = vk.load %s[i] : !vk.scratch<[8], f32> -> tensor<8xf32, #vk.axes<i>>
    }
  }
}

// Two copies that change places: one barrier an iteration orders this one's writes before the next one's reads, and
// its reads before the next one's writes.
// CHECK-LABEL: vk.mapped @copies
vk.mapped @copies(%out: !vk.tensor<[8], f32>) facts {sizes = {}, multiples = {}, strides = {}, distinct} {
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  vk.launch "a" over (%p = %one) {
    %s = vk.scratch "s" : !vk.scratch<[8], f32>
    %t = vk.scratch "t" : !vk.scratch<[8], f32>
    %value = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
    vk.store %value in %s[i] : !vk.scratch<[8], f32> <- tensor<8xf32, #vk.axes<i>>
    // CHECK:      vk.barrier
    // CHECK-NEXT: scf.for
    // CHECK-NEXT:   vk.barrier
    // CHECK-NEXT:   vk.load
    // CHECK-NEXT:   vk.store
    // CHECK-NEXT:   scf.yield
    // CHECK-NEXT: }
    // CHECK-NEXT: vk.barrier
    // CHECK-NEXT: vk.load
    %a, %b = scf.for %k = %zero to %one step %one iter_args(%old = %s, %new = %t) -> (!vk.scratch<[8], f32>, !vk.scratch<[8], f32>) : i64 {
      %row = vk.load %old[i] : !vk.scratch<[8], f32> -> tensor<8xf32, #vk.axes<i>>
      vk.store %row in %new[i] : !vk.scratch<[8], f32> <- tensor<8xf32, #vk.axes<i>>
      scf.yield %new, %old : !vk.scratch<[8], f32>, !vk.scratch<[8], f32>
    }
    %last = vk.load %a[i] : !vk.scratch<[8], f32> -> tensor<8xf32, #vk.axes<i>>
  }
}

// A barrier in one branch does not order what the other has done.
// CHECK-LABEL: vk.mapped @branches
vk.mapped @branches(%c: i1) facts {sizes = {}, multiples = {}, strides = {}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "a" over (%p = %one) {
    %s = vk.scratch "s" : !vk.scratch<[8], f32>
    %value = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
    vk.store %value in %s[i] : !vk.scratch<[8], f32> <- tensor<8xf32, #vk.axes<i>>
    // CHECK:      scf.if
    // CHECK-NEXT:   vk.barrier
    // CHECK-NEXT:   vk.load
    // CHECK-NEXT: }
    // CHECK-NEXT: vk.barrier
    // CHECK-NEXT: vk.load
    scf.if %c {
      %row = vk.load %s[i] : !vk.scratch<[8], f32> -> tensor<8xf32, #vk.axes<i>>
    }
    %last = vk.load %s[i] : !vk.scratch<[8], f32> -> tensor<8xf32, #vk.axes<i>>
  }
}

// Atomic operations do not get in each other's way.
// CHECK-LABEL: vk.mapped @atomics
vk.mapped @atomics(%x: !vk.tensor<[8], f32>) facts {sizes = {}, multiples = {}, strides = {}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "a" over (%p = %one) {
    %index = vk.position i : tensor<8xi64, #vk.axes<i>>
    %value = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
    // CHECK:      vk.scatter
    // CHECK-NEXT: vk.scatter
    // CHECK-NEXT: vk.barrier
    // CHECK-NEXT: vk.load
    vk.scatter %value atomic add in %x[%index] : !vk.tensor<[8], f32>, (tensor<8xi64, #vk.axes<i>>) <- tensor<8xf32, #vk.axes<i>>
    vk.scatter %value atomic add in %x[%index] : !vk.tensor<[8], f32>, (tensor<8xi64, #vk.axes<i>>) <- tensor<8xf32, #vk.axes<i>>
    %row = vk.load %x[i] : !vk.tensor<[8], f32> -> tensor<8xf32, #vk.axes<i>>
  }
}

// Chunks of different iterations do not overlap: no barrier from one to the next, but between the two loops.
// CHECK-LABEL: vk.mapped @chunks
vk.mapped @chunks(%n: i64) facts {sizes = {}, multiples = {}, strides = {}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "a" over (%p = %one) {
    %zero = arith.constant 0 : i64
    %step = arith.constant 8 : i64
    %s = vk.scratch "s" : !vk.scratch<[1024], f32>
    %value = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
    // CHECK:      scf.for
    // CHECK-NEXT:   vk.store
    // CHECK-NEXT: }
    // CHECK-NEXT: vk.barrier
    // CHECK-NEXT: scf.for
    // CHECK-NEXT:   vk.load
    // CHECK-NEXT:   vk.barrier
    // CHECK-NEXT:   vk.store
    // CHECK-NEXT: }
    scf.for %i0 = %zero to %n step %step : i64 {
      vk.store %value in %s[%i0 + i] : !vk.scratch<[1024], f32> <- tensor<8xf32, #vk.axes<i>>
    }
    scf.for %i1 = %zero to %n step %step : i64 {
      %row = vk.load %s[%i1 + i] : !vk.scratch<[1024], f32> -> tensor<8xf32, #vk.axes<i>>
      vk.store %row in %s[%i1 + i] : !vk.scratch<[1024], f32> <- tensor<8xf32, #vk.axes<i>>
    }
  }
}
